//! The texts of filters, which the index gives back.
//!
//! The texts of one program's filters differ in their constants alone. So a text is stored as the number of its
//! *template*, the text with a hole for each constant, and the constants. Ids of one class usually have one text, which
//! is stored with the class. Records lie one after the other in chunks. A chunk of which half is dead is rewritten, so
//! the chunks take at most about twice the memory of the living records.

use hashbrown::HashMap;

use crate::text_pool::Pool;

/// Bytes of a chunk. A longer record has a chunk of its own.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 15;

/// Places of one block of the table.
const PLACES: usize = 4096;

/// The place of a class without a text.
const NOWHERE: u32 = u32::MAX;

/// Replaces a constant in a template, and separates constants. Canonical texts escape it.
const HOLE: char = '\0';

/// Texts of classes, and of ids whose text is not that of their class.
#[derive(Default)]
pub(crate) struct FilterTexts {
    templates: Pool,
    chunks: Vec<Chunk>,
    /// The chunk to which records are appended.
    current: usize,
    /// Empty chunks.
    free: Vec<usize>,
    /// By class, the chunk of its record and the offset there, in blocks that never move.
    places: Vec<Vec<u32>>,
    of_ids: HashMap<u64, Box<str>, foldhash::fast::FixedState>,
}

/// Records: class, length of the rest, template, constants.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Bytes of living records.
    live: usize,
}

/// A record without its class.
struct Record<'a> {
    template: u32,
    constants: &'a [u8],
    /// Bytes of the whole record.
    size: usize,
}

impl FilterTexts {
    /// Stores the text of a new class; empty if it has none.
    pub(crate) fn add_class(&mut self, class: u32, text: &str) {
        if !text.is_empty() {
            let (template, constants) = split(text);
            let template = self.templates.intern(&template);
            self.append(class, template, constants.as_bytes());
        }
    }

    /// Stores the text of an id that joins a class, unless it is that of the class.
    pub(crate) fn add_id(&mut self, class: u32, id: u64, text: &str) {
        if self.class_text(class) != text {
            self.of_ids.insert(id, text.into());
        }
    }

    /// Forgets an id that leaves its class.
    pub(crate) fn remove_id(&mut self, id: u64) {
        self.of_ids.remove(&id);
    }

    /// Forgets a class.
    pub(crate) fn remove_class(&mut self, class: u32) {
        let place = self.place(class);
        if place == NOWHERE {
            return;
        }
        let Record { template, size, .. } = self.record(place);
        self.templates.release(template);
        self.set_place(class, NOWHERE);
        let at = chunk_of(place);
        let chunk = &mut self.chunks[at];
        chunk.live -= size;
        if chunk.live * 2 < chunk.bytes.len() && at != self.current {
            self.rewrite(at);
        }
    }

    /// Returns the text of an id in a class; empty if it has none.
    pub(crate) fn text(&self, class: u32, id: u64) -> String {
        self.of_ids.get(&id).map_or_else(|| self.class_text(class), |text| String::from(&**text))
    }

    fn class_text(&self, class: u32) -> String {
        let place = self.place(class);
        if place == NOWHERE {
            return String::new();
        }
        let Record { template, constants, .. } = self.record(place);
        join(self.templates.text(template), std::str::from_utf8(constants).expect("constants are text"))
    }

    fn append(&mut self, class: u32, template: u32, constants: &[u8]) {
        let mut rest = Vec::with_capacity(constants.len() + 5);
        push_number(&mut rest, template);
        rest.extend_from_slice(constants);
        let room = rest.len() + 9;
        let full = self.chunks.get(self.current).is_none_or(|chunk| chunk.bytes.len() + room > CHUNK);
        if full {
            self.begin_chunk();
        }
        let chunk = &mut self.chunks[self.current];
        let offset = chunk.bytes.len();
        chunk.bytes.extend_from_slice(&class.to_le_bytes());
        push_number(&mut chunk.bytes, u32::try_from(rest.len()).expect("a filter's text is short"));
        chunk.bytes.extend_from_slice(&rest);
        chunk.live += chunk.bytes.len() - offset;
        let place = u32::try_from(self.current << CHUNK_BITS | offset).expect("less than 4 GiB of texts");
        self.set_place(class, place);
    }

    fn begin_chunk(&mut self) {
        let before = self.current;
        self.current = self.free.pop().unwrap_or(self.chunks.len());
        if self.current == self.chunks.len() {
            self.chunks.push(Chunk::default());
        }
        // It was spared while records were appended to it.
        if self.chunks.get(before).is_some_and(|chunk| chunk.live * 2 < chunk.bytes.len()) {
            self.rewrite(before);
        }
    }

    /// Moves the living records of a chunk to the current one.
    fn rewrite(&mut self, at: usize) {
        let bytes = std::mem::take(&mut self.chunks[at]).bytes;
        let mut offset = 0;
        let mut moved = Vec::new();
        while offset < bytes.len() {
            let (class, record) = read(&bytes[offset..]);
            if self.place(class) as usize == at << CHUNK_BITS | offset {
                moved.push((
                    class,
                    record.template,
                    offset + record.size - record.constants.len(),
                    offset + record.size,
                ));
            }
            offset += record.size;
        }
        self.free.push(at);
        for (class, template, from, to) in moved {
            self.append(class, template, &bytes[from..to]);
        }
    }

    fn record(&self, place: u32) -> Record<'_> {
        read(&self.chunks[chunk_of(place)].bytes[place as usize % CHUNK..]).1
    }

    fn place(&self, class: u32) -> u32 {
        let block = self.places.get(class as usize / PLACES);
        block.and_then(|block| block.get(class as usize % PLACES)).copied().unwrap_or(NOWHERE)
    }

    fn set_place(&mut self, class: u32, place: u32) {
        let (block, at) = (class as usize / PLACES, class as usize % PLACES);
        if self.places.len() <= block {
            self.places.resize_with(block + 1, Vec::new);
        }
        let block = &mut self.places[block];
        if block.len() <= at {
            block.resize(at + 1, NOWHERE);
        }
        block[at] = place;
    }
}

fn chunk_of(place: u32) -> usize {
    (place >> CHUNK_BITS) as usize
}

/// Reads the record at the start of some bytes, and the class that it belongs to.
fn read(bytes: &[u8]) -> (u32, Record<'_>) {
    let (class, rest) = bytes.split_first_chunk::<4>().expect("a whole record");
    let (length, rest) = take_number(rest);
    let (body, after) = rest.split_at(length as usize);
    let (template, constants) = take_number(body);
    (u32::from_le_bytes(*class), Record { template, constants, size: bytes.len() - after.len() })
}

/// Appends a number, seven bits a byte, least first.
fn push_number(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 & 0x7F | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &[u8]) -> (u32, &[u8]) {
    let (mut number, mut at) = (0, 0);
    loop {
        number |= u32::from(bytes[at] & 0x7F) << (7 * at);
        at += 1;
        if bytes[at - 1] < 0x80 {
            return (number, &bytes[at..]);
        }
    }
}

/// Splits a text into its template and its constants: digits that do not belong to a name, and quoted text. The rules
/// decide only how often a template is shared. `join` restores every text.
fn split(text: &str) -> (String, String) {
    if text.contains(HOLE) {
        return (HOLE.to_string(), text.to_owned());
    }
    let (mut template, mut constants) = (String::with_capacity(text.len()), String::new());
    let mut rest = text;
    let mut in_name = false;
    while let Some(first) = rest.chars().next() {
        let (before, length, after) = match first {
            '\'' => rest[1..].find('\'').map_or((0, 0, 0), |length| (1, length, 1)),
            '0'..='9' if !in_name => {
                (0, rest.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(rest.len()), 0)
            }
            _ => (0, 0, 0),
        };
        if before + length == 0 {
            in_name = first.is_alphanumeric() || matches!(first, '_' | '.' | '$');
            template.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        if template.contains(HOLE) {
            constants.push(HOLE);
        }
        template.push_str(&rest[..before]);
        template.push(HOLE);
        constants.push_str(&rest[before..before + length]);
        template.push_str(&rest[before + length..before + length + after]);
        rest = &rest[before + length + after..];
        in_name = false;
    }
    (template, constants)
}

/// Fills the holes of a template. The last one gets all that is left.
fn join(template: &str, constants: &str) -> String {
    let mut text = String::with_capacity(template.len() + constants.len());
    let mut left = constants;
    let holes = template.matches(HOLE).count();
    for (at, part) in template.split(HOLE).enumerate() {
        text.push_str(part);
        if at + 1 < holes {
            let (constant, others) = left.split_once(HOLE).expect("a constant for each hole");
            text.push_str(constant);
            left = others;
        } else if at + 1 == holes {
            text.push_str(left);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_restored() {
        for text in [
            "",
            "true",
            "x == 1",
            "x1 == 15 and s2.t3 > -1.5e+20 or $kind == 'a'",
            "symbol == 'S1' and 100 <= price < 110",
            r"name == 'it\'s 5' and x in [1, 2, 'a', '']",
            "é == 'ü1' and x == 9",
            "unclosed 'a1",
            "\0 a 1 \0",
        ] {
            let (template, constants) = split(text);
            assert_eq!(join(&template, &constants), text);
        }
        assert_eq!(split("a1 == 12 and b == 'x'"), ("a1 == \0 and b == '\0'".to_owned(), "12\0x".to_owned()));
    }

    #[test]
    fn texts_of_ids_are_kept_apart() {
        let mut texts = FilterTexts::default();
        texts.add_class(3, "x == 1");
        texts.add_id(3, 11, "x == 1");
        texts.add_id(3, 12, "1 == x");
        assert_eq!((texts.text(3, 11), texts.text(3, 12)), ("x == 1".to_owned(), "1 == x".to_owned()));
        texts.remove_id(12);
        texts.remove_class(3);
        assert_eq!((texts.text(3, 10), texts.text(4, 12)), (String::new(), String::new()));
        assert!(texts.of_ids.is_empty());
    }

    #[test]
    fn chunks_follow_the_living_texts() {
        let mut texts = FilterTexts::default();
        let text = |class: u32| format!("symbol == 'S{class}' and price > {}", class * 7);
        let long = format!("name == '{}'", "é1".repeat(CHUNK));
        for class in 0..20_000 {
            texts.add_class(class, &if class == 7 { long.clone() } else { text(class) });
        }
        let bytes = |texts: &FilterTexts| texts.chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
        let full = bytes(&texts);
        for class in (0..20_000).filter(|class| class % 10 != 7) {
            texts.remove_class(class);
        }
        for class in 0..20_000 {
            let expected = if class == 7 { long.clone() } else { text(class) };
            assert_eq!(texts.text(class, 0), if class % 10 == 7 { expected } else { String::new() });
        }
        assert!(bytes(&texts) < full / 2, "{} of {full} bytes", bytes(&texts));
        (0..20_000).for_each(|class| texts.remove_class(class));
        assert!(bytes(&texts) <= CHUNK);
        texts.add_class(1, "x == 5");
        assert_eq!(texts.text(1, 0), "x == 5");
    }
}
