//! Checks msgpack's structure alone: depth, claimed items, and false lengths.

use super::{Fault, Refusal};

/// The size of an object, by its tag.
enum Size {
    /// The whole object has this size.
    Whole(usize),
    /// A length of this many bytes, then this many bytes of an ext code, then as many bytes as the length says.
    Bytes(usize, usize),
    /// A count of this many bytes, and this many objects per counted item.
    Items(usize, usize),
}

fn size(tag: u8) -> Size {
    match tag {
        0x80..=0x8F => Size::Items(0, 2),
        0x90..=0x9F => Size::Items(0, 1),
        0xA0..=0xBF => Size::Whole(1 + usize::from(tag & 0x1F)),
        0xC4 | 0xD9 => Size::Bytes(1, 0),
        0xC5 | 0xDA => Size::Bytes(2, 0),
        0xC6 | 0xDB => Size::Bytes(4, 0),
        0xC7..=0xC9 => Size::Bytes(1 << (tag - 0xC7), 1),
        0xCA..=0xD3 => Size::Whole([5, 9, 2, 3, 5, 9, 2, 3, 5, 9][usize::from(tag - 0xCA)]),
        0xD4..=0xD8 => Size::Whole(2 + (1 << (tag - 0xD4))),
        0xDC => Size::Items(2, 1),
        0xDD => Size::Items(4, 1),
        0xDE => Size::Items(2, 2),
        0xDF => Size::Items(4, 2),
        _ => Size::Whole(1),
    }
}

/// Refuses a body that is not exactly one object of bounded depth and items.
pub(super) fn check(body: &[u8], depth_max: usize, items_max: usize) -> Result<(), Refusal> {
    let (mut at, mut left, mut items) = (0_usize, 1_usize, 0_usize);
    let mut outer: Vec<usize> = Vec::new();
    let number = |at: usize, width: usize| {
        let from = at.min(body.len());
        let bytes = &body[from..(at + width).min(body.len())];
        bytes.iter().fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    loop {
        while left == 0 {
            match outer.pop() {
                Some(after) => left = after,
                None if at > body.len() => return truncated(),
                None if at < body.len() => {
                    let over = body.len() - at;
                    return Err(Refusal::new(Fault::Body, format!("{over} bytes after the end of msgpack")));
                }
                None => return Ok(()),
            }
        }
        let Some(&tag) = body.get(at) else { return truncated() };
        left -= 1;
        match size(tag) {
            Size::Whole(bytes) => at += bytes,
            Size::Bytes(width, code) => at += 1 + width + code + number(at + 1, width),
            Size::Items(width, each) => {
                outer.push(left);
                left = each * if width == 0 { usize::from(tag & 0x0F) } else { number(at + 1, width) };
                at += 1 + width;
                items += left;
                if outer.len() > depth_max {
                    return Err(Refusal::new(Fault::Body, format!("msgpack nested deeper than {depth_max}")));
                }
                if items > items_max {
                    return Err(Refusal::new(Fault::Oversize, format!("over {items_max} msgpack items")));
                }
            }
        }
    }
}

fn truncated() -> Result<(), Refusal> {
    Err(Refusal::new(Fault::Truncated, "msgpack ends before what its lengths promise"))
}
