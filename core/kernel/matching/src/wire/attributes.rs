//! Decodes attributes from msgpack: a map from names to scalars and lists of scalars.
//!
//! Integers beyond 64 bits are ext type 1: two's complement, big-endian, of the least length. Faults are found in the
//! order of `plait_core`: first the bytes, then repeated names, then names, then values.

use super::msgpack_depth;
use super::{Fault, Limits, Refusal};
use crate::constraint::Value;
use crate::number::Number;

const BIG_INT: i8 = 1;
const TIMESTAMP: i8 = -1;
const LONG_LISTS_UNSCANNED: usize = 4;
/// Nested containers that the reference decoder accepts. Beyond one list in the map all are refused anyway.
const DEPTH_MAX: usize = 1023;

/// A receiver of attributes.
pub trait Sink<'a> {
    /// Takes an attribute, in the order of the bytes. Returns true if the name is known to be valid. After an error,
    /// everything taken is invalid.
    fn take(&mut self, name: &'a str, value: Value<'a>) -> bool;
}

/// A msgpack object, as far as attributes need it.
enum Object<'a> {
    Scalar(Value<'a>),
    /// An integer, with the number of its bits without sign.
    Int(Number, u32),
    Text(&'a str),
    List {
        fault: Option<Refusal>,
    },
    /// A type that no attribute may have.
    Foreign(&'static str),
    EmptyBytes,
    Map,
}

/// Decodes the attributes of one event into a sink.
///
/// # Errors
/// The bytes are not the attributes of an event.
pub fn read<'a>(packed: &'a [u8], limits: &Limits, sink: &mut impl Sink<'a>) -> Result<(), Refusal> {
    let long_lists = memchr::memchr2_iter(0xDC, 0xDD, packed).take(LONG_LISTS_UNSCANNED + 1).count();
    if long_lists > LONG_LISTS_UNSCANNED {
        msgpack_depth::check(packed, 2, packed.len())?;
    }
    let mut reader = Reader { rest: packed, limits, late: None };
    let Some(count) = reader.map_header()? else {
        reader.object(0)?;
        reader.end()?;
        return refuse(Fault::Body, "attributes and headers are maps");
    };
    reader.entries(count, sink)
}

/// Whether the name of an attribute begins with `$`. Also true of bytes that contain a `$` and are no attributes.
#[must_use]
pub fn has_dollar_name(packed: &[u8], limits: &Limits) -> bool {
    if memchr::memchr(b'$', packed).is_none() {
        return false;
    }
    let mut names = DollarNames { found: false };
    read(packed, limits, &mut names).is_err() || names.found
}

struct DollarNames {
    found: bool,
}

impl<'a> Sink<'a> for DollarNames {
    fn take(&mut self, name: &'a str, _: Value<'a>) -> bool {
        self.found |= name.starts_with('$');
        false
    }
}

struct Reader<'a, 'l> {
    rest: &'a [u8],
    limits: &'l Limits,
    /// The first invalid value. It is reported only if the bytes and the names are valid.
    late: Option<Refusal>,
}

impl<'a> Reader<'a, '_> {
    fn entries(&mut self, count: usize, sink: &mut impl Sink<'a>) -> Result<(), Refusal> {
        let mut names = Names::default();
        let mut bad_name = None;
        for _ in 0..count {
            let key = self.object(1)?;
            let value = self.object(1)?;
            let name = match key {
                Object::Text(name) => name,
                Object::EmptyBytes => {
                    names.twice |= std::mem::replace(&mut names.bytes, true);
                    bad_name.get_or_insert("");
                    continue;
                }
                _ => return refuse(Fault::Body, "msgpack refused: a key that is no text"),
            };
            names.add(name);
            let value = match value {
                Object::Scalar(value) => value,
                Object::Text(text) => {
                    self.check_text(text);
                    Value::Text(text)
                }
                Object::Int(number, bits) => {
                    self.check_int(bits);
                    Value::Number(number)
                }
                Object::List { fault } => {
                    self.late = self.late.take().or(fault);
                    Value::Other
                }
                Object::Foreign(what) => self.later(what),
                Object::EmptyBytes => self.later("bytes"),
                Object::Map => self.later("dict"),
            };
            if name.len() > self.limits.name_bytes || !(sink.take(name, value) || is_name(name)) {
                bad_name.get_or_insert(name);
            }
        }
        self.end()?;
        if names.twice {
            return refuse(Fault::Body, "a name comes twice in one map");
        }
        if let Some(name) = bad_name {
            let shown: String = name.chars().take(80).collect();
            return refuse(Fault::Field, format!("{shown:?} is no attribute name"));
        }
        self.late.take().map_or(Ok(()), Err)
    }

    fn end(&self) -> Result<(), Refusal> {
        if self.rest.is_empty() { Ok(()) } else { refuse(Fault::Body, "msgpack refused: bytes after its end") }
    }

    fn later(&mut self, what: &str) -> Value<'a> {
        let refusal = || Refusal::new(Fault::Field, format!("an attribute of type {what}"));
        self.late.get_or_insert_with(refusal);
        Value::Other
    }

    fn check_text(&mut self, text: &str) {
        if text.len() > self.limits.value_bytes {
            let refusal = || Refusal::new(Fault::Oversize, format!("text of over {} bytes", self.limits.value_bytes));
            self.late.get_or_insert_with(refusal);
        }
    }

    fn check_int(&mut self, bits: u32) {
        if bits as usize > self.limits.int_bits {
            let refusal = || Refusal::new(Fault::Oversize, format!("an integer of over {} bits", self.limits.int_bits));
            self.late.get_or_insert_with(refusal);
        }
    }

    /// Reads the count of the map that comes next, if there is one.
    fn map_header(&mut self) -> Result<Option<usize>, Refusal> {
        let Some(&tag) = self.rest.first() else { return incomplete() };
        let count = match tag {
            0x80..=0x8F => usize::from(self.number::<1>()? as u8 & 0x0F),
            0xDE => self.tagged::<2>()? as usize,
            0xDF => self.tagged::<4>()? as usize,
            _ => return Ok(None),
        };
        if count > self.limits.attributes {
            return refuse(Fault::Oversize, format!("msgpack refused: a map of {count}"));
        }
        Ok(Some(count))
    }

    /// Reads the next object, nested in this many containers.
    #[inline]
    fn object(&mut self, depth: usize) -> Result<Object<'a>, Refusal> {
        let Some(&tag) = self.rest.first() else { return incomplete() };
        Ok(match tag {
            0x00..=0x7F => {
                self.rest = &self.rest[1..];
                Object::Int(Number::Int(i64::from(tag)), 8 - tag.leading_zeros())
            }
            0xE0..=0xFF => {
                self.rest = &self.rest[1..];
                signed(i64::from(tag as i8))
            }
            0xA0..=0xBF => {
                self.rest = &self.rest[1..];
                self.text(usize::from(tag & 0x1F))?
            }
            0xCA => float(f64::from(f32::from_bits(self.tagged::<4>()? as u32))),
            0xCB => float(f64::from_bits(self.tagged::<8>()?)),
            0xCC => unsigned(self.tagged::<1>()?),
            0xCD => unsigned(self.tagged::<2>()?),
            0xCE => unsigned(self.tagged::<4>()?),
            0xCF => unsigned(self.tagged::<8>()?),
            0xD0 => signed(i64::from(self.tagged::<1>()? as i8)),
            0xD1 => signed(i64::from(self.tagged::<2>()? as i16)),
            0xD2 => signed(i64::from(self.tagged::<4>()? as i32)),
            0xD3 => signed(self.tagged::<8>()? as i64),
            _ => return self.rare(tag, depth),
        })
    }

    fn rare(&mut self, tag: u8, depth: usize) -> Result<Object<'a>, Refusal> {
        match tag {
            0xC0 => Ok(self.scalar(Value::Absent)),
            0xC2 => Ok(self.scalar(Value::Bool(false))),
            0xC3 => Ok(self.scalar(Value::Bool(true))),
            0xC4 => self.tagged::<1>().and_then(|size| self.bytes(size)),
            0xC5 => self.tagged::<2>().and_then(|size| self.bytes(size)),
            0xC6 => self.tagged::<4>().and_then(|size| self.bytes(size)),
            0xC7 => self.tagged::<1>().and_then(|size| self.ext(size)),
            0xC8 => self.tagged::<2>().and_then(|size| self.ext(size)),
            0xC9 => self.tagged::<4>().and_then(|size| self.ext(size)),
            0xD4..=0xD8 => {
                self.rest = &self.rest[1..];
                self.ext(1 << (tag - 0xD4))
            }
            0xD9 => self.tagged::<1>().and_then(|size| self.text(size as usize)),
            0xDA => self.tagged::<2>().and_then(|size| self.text(size as usize)),
            0xDB => self.tagged::<4>().and_then(|size| self.text(size as usize)),
            0x90..=0x9F => self.number::<1>().and_then(|tag| self.list(tag as usize & 0x0F, depth)),
            0xDC => self.tagged::<2>().and_then(|count| self.list(count as usize, depth)),
            0xDD => self.tagged::<4>().and_then(|count| self.list(count as usize, depth)),
            0x80..=0x8F | 0xDE | 0xDF => self.nested_map(depth),
            _ => refuse(Fault::Body, format!("msgpack refused: tag {tag:#x}")),
        }
    }

    fn scalar(&mut self, value: Value<'a>) -> Object<'a> {
        self.rest = &self.rest[1..];
        Object::Scalar(value)
    }

    fn list(&mut self, count: usize, depth: usize) -> Result<Object<'a>, Refusal> {
        if count > self.limits.list_items {
            return refuse(Fault::Oversize, format!("msgpack refused: a list of {count}"));
        }
        descend(depth)?;
        let outside = self.late.take();
        for _ in 0..count {
            match self.object(depth + 1)? {
                Object::Scalar(_) => {}
                Object::Text(text) => self.check_text(text),
                Object::Int(_, bits) => self.check_int(bits),
                Object::List { .. } => drop(self.later("list")),
                Object::Foreign(what) => drop(self.later(what)),
                Object::EmptyBytes => drop(self.later("bytes")),
                Object::Map => drop(self.later("dict")),
            }
        }
        let fault = std::mem::replace(&mut self.late, outside);
        Ok(Object::List { fault })
    }

    fn nested_map(&mut self, depth: usize) -> Result<Object<'a>, Refusal> {
        let count = self.map_header()?.unwrap_or(0);
        descend(depth)?;
        let outside = self.late.take();
        for _ in 0..count {
            let key = self.object(depth + 1)?;
            self.object(depth + 1)?;
            if !matches!(key, Object::Text(_) | Object::EmptyBytes) {
                return refuse(Fault::Body, "msgpack refused: a key that is no text");
            }
        }
        self.late = outside;
        Ok(Object::Map)
    }

    #[inline]
    fn text(&mut self, size: usize) -> Result<Object<'a>, Refusal> {
        let bytes = self.take(size)?;
        if size > self.limits.value_bytes.max(self.limits.name_bytes) {
            return refuse(Fault::Oversize, format!("msgpack refused: a text of {size} bytes"));
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Object::Text(text)),
            Err(_) => refuse(Fault::Body, "msgpack refused: a text that is not UTF-8"),
        }
    }

    fn bytes(&mut self, size: u64) -> Result<Object<'a>, Refusal> {
        self.take(size as usize)?;
        if size > 0 {
            return refuse(Fault::Oversize, format!("msgpack refused: {size} bytes"));
        }
        Ok(Object::EmptyBytes)
    }

    fn ext(&mut self, size: u64) -> Result<Object<'a>, Refusal> {
        let size = size as usize;
        let code = self.number::<1>()? as i8;
        let data = self.take(size)?;
        if size > self.limits.int_bits / 8 + 1 {
            return refuse(Fault::Oversize, format!("msgpack refused: an ext of {size} bytes"));
        }
        match code {
            BIG_INT => big_int(data, self.limits),
            TIMESTAMP => timestamp(data),
            _ => refuse(Fault::Field, format!("ext type {code} in attributes")),
        }
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], Refusal> {
        let Some((taken, rest)) = self.rest.split_at_checked(size) else { return incomplete() };
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a number from the next bytes.
    #[inline]
    fn number<const WIDTH: usize>(&mut self) -> Result<u64, Refusal> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<WIDTH>() else { return incomplete() };
        self.rest = rest;
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// Reads a number from the bytes after a tag.
    #[inline]
    fn tagged<const WIDTH: usize>(&mut self) -> Result<u64, Refusal> {
        self.rest = &self.rest[1..];
        self.number::<WIDTH>()
    }
}

fn descend(depth: usize) -> Result<(), Refusal> {
    if depth > DEPTH_MAX { refuse(Fault::Body, "msgpack refused: nested too deep") } else { Ok(()) }
}

fn unsigned(value: u64) -> Object<'static> {
    Object::Int(Number::from_u64(value), 64 - value.leading_zeros())
}

fn signed(value: i64) -> Object<'static> {
    Object::Int(Number::Int(value), 64 - value.unsigned_abs().leading_zeros())
}

fn float(value: f64) -> Object<'static> {
    Object::Scalar(Number::from_float(value).map_or(Value::Other, Value::Number))
}

fn big_int(data: &[u8], limits: &Limits) -> Result<Object<'static>, Refusal> {
    let negative = data.first().is_some_and(|&first| first & 0x80 != 0);
    let fill = if negative { 0xFF } else { 0 };
    let least = data.len() > 1 && (data[0] != fill || (data[1] ^ fill) & 0x80 != 0);
    // msgpack's own forms hold every value of eight bytes, and of nine that start with a zero.
    if !least || data.len() < 9 || (data.len() == 9 && data[0] == 0) {
        return refuse(Fault::Field, "a big integer that is not in its least form");
    }
    let magnitude_bits = magnitude_bits(data, negative);
    if magnitude_bits > limits.int_bits {
        return refuse(Fault::Oversize, format!("an integer of over {} bits", limits.int_bits));
    }
    Ok(Object::Int(Number::from_signed_bytes(data), magnitude_bits as u32))
}

/// Bits of the magnitude of two's complement bytes in their least form.
fn magnitude_bits(data: &[u8], negative: bool) -> usize {
    let fill = if negative { 0xFF } else { 0 };
    let lead = data.iter().position(|&byte| byte != fill);
    let bits = lead.map_or(0, |at| (data.len() - at) * 8 - (data[at] ^ fill).leading_zeros() as usize);
    // -2^n has n bits of complement, and a magnitude of n + 1.
    let power_of_two = || {
        let mut low = data.iter().rev().skip_while(|&&byte| byte == 0);
        let first = low.next().map_or(0, |byte| !byte);
        first.trailing_ones() < 8 && (first >> first.trailing_ones()) == 0 && low.all(|&byte| byte == 0xFF)
    };
    bits + usize::from(negative && power_of_two())
}

fn timestamp(data: &[u8]) -> Result<Object<'static>, Refusal> {
    let nanoseconds = match data.len() {
        4 => 0,
        8 => u64::from_be_bytes(data.try_into().expect("eight bytes")) >> 34,
        12 => u64::from(u32::from_be_bytes([data[0], data[1], data[2], data[3]])),
        _ => u64::MAX,
    };
    if nanoseconds >= 1_000_000_000 {
        return refuse(Fault::Body, "msgpack refused: a timestamp");
    }
    Ok(Object::Foreign("Timestamp"))
}

fn incomplete<T>() -> Result<T, Refusal> {
    refuse(Fault::Body, "msgpack refused: incomplete input")
}

#[cold]
fn refuse<T>(fault: Fault, message: impl std::fmt::Display) -> Result<T, Refusal> {
    Err(Refusal::new(fault, message))
}

/// The names of one map so far.
#[derive(Default)]
struct Names<'a> {
    seen: Vec<&'a str>,
    /// A bit for each first and last byte and length that occurred: most names differ in them.
    marks: [u64; 4],
    bytes: bool,
    twice: bool,
}

impl<'a> Names<'a> {
    #[inline]
    fn add(&mut self, name: &'a str) {
        let bytes = name.as_bytes();
        let (first, last) = (bytes.first().map_or(0, |&byte| byte), bytes.last().map_or(0, |&byte| byte));
        let middle = bytes.get(bytes.len() / 2).map_or(0, |&byte| byte);
        let mark = first.wrapping_mul(31) ^ last.wrapping_mul(17) ^ middle.wrapping_mul(7) ^ (bytes.len() as u8);
        let (word, bit) = (usize::from(mark >> 6), 1 << (mark & 63));
        if self.marks[word] & bit != 0 && self.seen.contains(&name) {
            self.twice = true;
        }
        self.marks[word] |= bit;
        self.seen.push(name);
    }
}

/// Whether a text is an attribute name: identifiers joined by dots; a leading `$` marks Plait's own.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let name = name.strip_prefix('$').unwrap_or(name);
    name.split('.').all(|part| {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}
