//! Converts plain attributes between Python and msgpack: the common case, whole and fast. For others (lists, integers
//! beyond 64 bits, faults) the result is None, and `plait_core` handles them and raises the errors.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use plait_matching::wire::Limits;
use plait_matching::wire::attributes::is_name;

/// Names in the cache of Python strings.
const NAMES_KEPT: usize = 8192;

/// Names that occurred before, checked and interned.
#[derive(Default)]
pub(crate) struct Names {
    known: HashMap<Box<[u8]>, Py<PyString>>,
}

impl Names {
    fn find<'py>(&mut self, py: Python<'py>, bytes: &[u8], limits: &Limits) -> Option<Bound<'py, PyString>> {
        if let Some(name) = self.known.get(bytes) {
            return Some(name.bind(py).clone());
        }
        let text = std::str::from_utf8(bytes).ok()?;
        if bytes.len() > limits.name_bytes || !is_name(text) {
            return None;
        }
        if self.known.len() >= NAMES_KEPT {
            self.known.clear();
        }
        let name = PyString::intern(py, text);
        self.known.insert(bytes.into(), name.clone().unbind());
        Some(name)
    }
}

/// Decodes packed attributes to a dict.
pub(crate) fn unpack<'py>(
    py: Python<'py>,
    packed: &[u8],
    limits: &Limits,
    names: &mut Names,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    if limits.int_bits < 64 {
        return Ok(None);
    }
    let mut reader = Reader { rest: packed };
    let Some(count) = reader.map_header().filter(|&count| count <= limits.attributes) else { return Ok(None) };
    let found = PyDict::new(py);
    for _ in 0..count {
        let Some(name) = reader.text().and_then(|bytes| names.find(py, bytes, limits)) else { return Ok(None) };
        let Some(value) = reader.value(py, limits)? else { return Ok(None) };
        found.set_item(name, value)?;
    }
    Ok((reader.rest.is_empty() && found.len() == count).then_some(found))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn array<const WIDTH: usize>(&mut self) -> Option<[u8; WIDTH]> {
        let (bytes, rest) = self.rest.split_first_chunk::<WIDTH>()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn map_header(&mut self) -> Option<usize> {
        match self.byte()? {
            tag @ 0x80..=0x8F => Some(usize::from(tag & 0x0F)),
            0xDE => self.array().map(|bytes| usize::from(u16::from_be_bytes(bytes))),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let tag = self.byte()?;
        self.text_of(tag)
    }

    fn text_of(&mut self, tag: u8) -> Option<&'a [u8]> {
        let size = match tag {
            0xA0..=0xBF => usize::from(tag & 0x1F),
            0xD9 => usize::from(self.byte()?),
            0xDA => usize::from(u16::from_be_bytes(self.array()?)),
            _ => return None,
        };
        let (text, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(text)
    }

    fn value<'py>(&mut self, py: Python<'py>, limits: &Limits) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(tag) = self.byte() else { return Ok(None) };
        let int = match tag {
            0x00..=0x7F => Some(i64::from(tag)),
            0xE0..=0xFF => Some(i64::from(tag as i8)),
            0xCC => self.byte().map(i64::from),
            0xCD => self.array().map(|bytes| i64::from(u16::from_be_bytes(bytes))),
            0xCE => self.array().map(|bytes| i64::from(u32::from_be_bytes(bytes))),
            0xD0 => self.byte().map(|byte| i64::from(byte as i8)),
            0xD1 => self.array().map(|bytes| i64::from(i16::from_be_bytes(bytes))),
            0xD2 => self.array().map(|bytes| i64::from(i32::from_be_bytes(bytes))),
            0xD3 => self.array().map(i64::from_be_bytes),
            0xCF => {
                let int = self.array().map(|bytes| u64::from_be_bytes(bytes).into_pyobject(py)).transpose()?;
                return Ok(int.map(Bound::into_any));
            }
            0xCB => {
                let float = self.array().map(|bytes| PyFloat::new(py, f64::from_be_bytes(bytes)).into_any());
                return Ok(float);
            }
            0xC0 => return Ok(Some(py.None().into_bound(py))),
            0xC2 | 0xC3 => return Ok(Some(PyBool::new(py, tag == 0xC3).to_owned().into_any())),
            0xA0..=0xBF | 0xD9 | 0xDA => {
                let text = self.text_of(tag).filter(|text| text.len() <= limits.value_bytes);
                let text = text.and_then(|text| std::str::from_utf8(text).ok());
                return Ok(text.map(|text| PyString::new(py, text).into_any()));
            }
            _ => None,
        };
        int.map(|int| Ok(int.into_pyobject(py)?.into_any())).transpose()
    }
}

/// Encodes a dict of plain attributes after the content of `out`, as msgpack's packer does. Returns false if it is not
/// plain; `out` is then invalid.
pub(crate) fn pack(attributes: &Bound<'_, PyDict>, limits: &Limits, out: &mut Vec<u8>) -> bool {
    let count = attributes.len();
    if count.max(limits.value_bytes).max(limits.name_bytes) > usize::from(u16::MAX)
        || count > limits.attributes
        || limits.int_bits < 64
    {
        return false;
    }
    let start = out.len();
    if count < 16 {
        out.push(0x80 | count as u8);
    } else {
        out.push(0xDE);
        out.extend((count as u16).to_be_bytes());
    }
    for (name, value) in attributes.iter() {
        let Ok(name) = name.cast_exact::<PyString>() else { return false };
        let Ok(name) = name.to_str() else { return false };
        if name.len() > limits.name_bytes || name.starts_with('$') || !is_name(name) {
            return false;
        }
        pack_text(name, out);
        if !pack_value(&value, limits, out) {
            return false;
        }
    }
    out.len() - start <= limits.attributes_bytes
}

fn pack_value(value: &Bound<'_, PyAny>, limits: &Limits, out: &mut Vec<u8>) -> bool {
    if let Ok(float) = value.cast_exact::<PyFloat>() {
        out.push(0xCB);
        out.extend(float.value().to_be_bytes());
    } else if let Ok(text) = value.cast_exact::<PyString>() {
        let Ok(text) = text.to_str() else { return false };
        if text.len() > limits.value_bytes {
            return false;
        }
        pack_text(text, out);
    } else if let Ok(int) = value.cast_exact::<PyInt>() {
        let Ok(int) = int.extract::<i64>() else { return false };
        pack_int(int, out);
    } else if let Ok(bool) = value.cast_exact::<PyBool>() {
        out.push(if bool.is_true() { 0xC3 } else { 0xC2 });
    } else if value.is_none() {
        out.push(0xC0);
    } else {
        return false;
    }
    true
}

/// Encodes a text of less than 64 KiB.
fn pack_text(text: &str, out: &mut Vec<u8>) {
    let size = text.len();
    if size < 32 {
        out.push(0xA0 | size as u8);
    } else if size < 0x100 {
        out.extend([0xD9, size as u8]);
    } else {
        out.push(0xDA);
        out.extend((size as u16).to_be_bytes());
    }
    out.extend(text.as_bytes());
}

/// Encodes an integer in the shortest form, as msgpack's packer does.
fn pack_int(int: i64, out: &mut Vec<u8>) {
    match int {
        0..=0x7F => out.push(int as u8),
        -0x20..=-1 => out.push(int as i8 as u8),
        0x80..=0xFF => out.extend([0xCC, int as u8]),
        0x100..=0xFFFF => tagged(0xCD, &(int as u16).to_be_bytes(), out),
        0x1_0000..=0xFFFF_FFFF => tagged(0xCE, &(int as u32).to_be_bytes(), out),
        0x1_0000_0000.. => tagged(0xCF, &(int as u64).to_be_bytes(), out),
        -0x80..=-0x21 => out.extend([0xD0, int as i8 as u8]),
        -0x8000..=-0x81 => tagged(0xD1, &(int as i16).to_be_bytes(), out),
        -0x8000_0000..=-0x8001 => tagged(0xD2, &(int as i32).to_be_bytes(), out),
        _ => tagged(0xD3, &int.to_be_bytes(), out),
    }
}

fn tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend(bytes);
}
