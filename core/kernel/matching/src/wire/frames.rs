//! Splits a buffer into frames. A frame starts with `>IBBH`: bytes after these eight, version, type, bytes of the
//! route.
//!
//! Hot frames (publish, forward, deliver) are checked up to their attributes; control frames up to their body, which is
//! left to their receiver.

use super::{Fault, Limits, Refusal};

/// Bytes of the prefix of every frame.
pub const PREFIX_BYTES: usize = 8;
/// Bytes of the fixed part of an event block.
pub const BLOCK_BYTES: usize = 40;

/// The version of frames before one is agreed on.
pub const HANDSHAKE_VERSION: u8 = 0;

/// An event from its publisher.
pub const PUBLISH: u8 = 1;
/// A copy of an event on its way between brokers.
pub const FORWARD: u8 = 2;
/// An event for subscriptions of one client.
pub const DELIVER: u8 = 3;

const CONFIRM_MAX: u8 = 2;
const PRIORITY_MAX: u8 = 9;

/// The meaning of a frame number after the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// No frame.
    Unknown,
    /// A frame that carries an event.
    Event,
    /// A control frame.
    Control,
    /// The control frame that a side which is still in the handshake may send, too: Close.
    Close,
    /// A frame of the handshake, which is over.
    Opening,
}

/// A frame in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its type.
    pub number: u8,
    /// Start of its prefix.
    pub start: usize,
    /// Start of its block (of a hot frame) or body.
    pub body: usize,
    /// Its end.
    pub end: usize,
    /// End of a hot frame's attributes; they start [`BLOCK_BYTES`] after the start of its block.
    pub attributes_end: usize,
}

impl Frame {
    /// The attributes of a hot frame.
    #[must_use]
    pub fn attributes<'a>(&self, buffer: &'a [u8]) -> &'a [u8] {
        &buffer[self.body + BLOCK_BYTES..self.attributes_end]
    }
}

/// Splits buffers into the frames of one protocol version.
#[derive(Clone, Debug)]
pub struct Splitter {
    /// Limits of received frames.
    pub limits: Limits,
    version: u8,
    numbers: [Number; 256],
}

impl Splitter {
    /// Makes a splitter for one version with these control frames.
    #[must_use]
    pub fn new(limits: Limits, version: u8, controls: &[(u8, Number)]) -> Self {
        let mut numbers = [Number::Unknown; 256];
        for number in [PUBLISH, FORWARD, DELIVER] {
            numbers[usize::from(number)] = Number::Event;
        }
        for &(number, kind) in controls {
            numbers[usize::from(number)] = kind;
        }
        Self { limits, version, numbers }
    }

    /// Returns the frame that starts at `at`; None if the buffer has only part of it.
    ///
    /// # Errors
    /// It breaks the protocol.
    pub fn next(&self, buffer: &[u8], at: usize) -> Result<Option<Frame>, Refusal> {
        let Some((prefix, _)) = buffer.get(at..).and_then(<[u8]>::split_first_chunk::<PREFIX_BYTES>) else {
            return Ok(None);
        };
        let size = u32::from_be_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let (version, number) = (prefix[4], prefix[5]);
        let route_bytes = usize::from(u16::from_be_bytes([prefix[6], prefix[7]]));
        let kind = self.numbers[usize::from(number)];
        let body_bytes_max = self.limits.frame_bytes - PREFIX_BYTES;
        if size > body_bytes_max || version != self.version || matches!(kind, Number::Unknown | Number::Opening) {
            self.check_unusual(size, version, number)?;
        }
        let start = at + PREFIX_BYTES;
        if buffer.len() - start < size {
            return Ok(None);
        }
        let (body, end) = (start + route_bytes, start + size);
        let mut frame = Frame { number, start: at, body, end, attributes_end: body };
        if kind == Number::Event {
            self.check_route(number, &buffer[start..end], route_bytes)?;
            frame.attributes_end = body + BLOCK_BYTES + self.check_block(&buffer[body..end])?;
        } else if route_bytes != 0 {
            return refuse(Fault::Field, format!("a control frame with a route of {route_bytes} bytes"));
        }
        Ok(Some(frame))
    }

    #[cold]
    fn check_unusual(&self, size: usize, version: u8, number: u8) -> Result<(), Refusal> {
        let body_bytes_max = self.limits.frame_bytes - PREFIX_BYTES;
        if size > body_bytes_max {
            return refuse(Fault::Oversize, format!("a body of {size} bytes, and {body_bytes_max} are allowed"));
        }
        let kind = self.numbers[usize::from(number)];
        if kind == Number::Opening {
            return refuse(Fault::Order, format!("a frame of type {number:#x} after the handshake is done"));
        }
        let early_close = kind == Number::Close && version == HANDSHAKE_VERSION;
        if version != self.version && !early_close {
            return refuse(
                Fault::Version,
                format!("a frame in version {version}; this connection uses {}", self.version),
            );
        }
        if kind == Number::Unknown {
            return refuse(Fault::Type, format!("frame type {number:#x} does not exist"));
        }
        Ok(())
    }

    /// Checks the route at the start of the bytes after a hot frame's prefix.
    fn check_route(&self, number: u8, rest: &[u8], route_bytes: usize) -> Result<(), Refusal> {
        let holds = |fixed: usize| {
            if route_bytes > rest.len() || route_bytes < fixed {
                return refuse(
                    Fault::Truncated,
                    format!("a route of {route_bytes} bytes in a frame of {}", rest.len()),
                );
            }
            Ok(())
        };
        match number {
            PUBLISH => {
                holds(2)?;
                if route_bytes != 2 {
                    return refuse(Fault::Field, format!("a publish frame's route is 2 bytes, not {route_bytes}"));
                }
                let (level, reserved) = (rest[0], rest[1]);
                if level > CONFIRM_MAX || reserved != 0 {
                    return refuse(Fault::Field, format!("confirm level {level}, reserved {reserved}"));
                }
                Ok(())
            }
            FORWARD => {
                holds(20)?;
                let (path, count) = (usize::from(rest[16]), usize::from(u16::from_be_bytes([rest[18], rest[19]])));
                check_counts(path, self.limits.path, count, self.limits.destinations)?;
                check_route_length(route_bytes, 20 + 8 * path + 24 * count)
            }
            _ => {
                holds(12)?;
                let (path, count) = (usize::from(rest[8]), usize::from(u16::from_be_bytes([rest[10], rest[11]])));
                check_counts(path, self.limits.path, count, self.limits.deliveries)?;
                check_route_length(route_bytes, 12 + 8 * path + 16 * count)
            }
        }
    }

    /// Checks an event block up to its attributes, and returns the number of their bytes.
    ///
    /// # Errors
    /// It breaks the protocol.
    pub fn check_block(&self, block: &[u8]) -> Result<usize, Refusal> {
        let Some((fixed, rest)) = block.split_first_chunk::<BLOCK_BYTES>() else {
            return refuse(Fault::Truncated, format!("an event block of {} bytes", block.len()));
        };
        let (numbers, _) = fixed.as_chunks::<8>();
        let (published_us, lifetime_us) = (i64::from_be_bytes(numbers[2]), i64::from_be_bytes(numbers[3]));
        let (flags, priority) = (fixed[32], fixed[33]);
        let headers_bytes = usize::from(u16::from_be_bytes([fixed[34], fixed[35]]));
        let attributes_bytes = u32::from_be_bytes([fixed[36], fixed[37], fixed[38], fixed[39]]) as usize;
        let limits = &self.limits;
        let lengths = || {
            let block = block.len();
            format!(
                "{attributes_bytes} bytes of attributes and {headers_bytes} of headers in an event block of {block}"
            )
        };
        if attributes_bytes > limits.attributes_bytes || headers_bytes > limits.headers_bytes {
            return refuse(Fault::Oversize, lengths());
        }
        let Some(payload_bytes) = rest.len().checked_sub(attributes_bytes + headers_bytes) else {
            return refuse(Fault::Truncated, lengths());
        };
        if payload_bytes > limits.payload_bytes {
            return refuse(Fault::Oversize, format!("a payload of over {} bytes", limits.payload_bytes));
        }
        if lifetime_us < 0 || flags != 0 || priority > PRIORITY_MAX || published_us == i64::MIN {
            return refuse(
                Fault::Field,
                format!("lifetime_us={lifetime_us} flags={flags} priority={priority} published_us={published_us}"),
            );
        }
        Ok(attributes_bytes)
    }
}

fn check_counts(path: usize, path_max: usize, named: usize, named_max: usize) -> Result<(), Refusal> {
    if path > path_max || named > named_max {
        return refuse(Fault::Oversize, format!("a path of {path} and {named} destinations or deliveries"));
    }
    Ok(())
}

fn check_route_length(route_bytes: usize, declared_bytes: usize) -> Result<(), Refusal> {
    if route_bytes < declared_bytes {
        return refuse(
            Fault::Truncated,
            format!("a route of {route_bytes} bytes whose counts promise {declared_bytes}"),
        );
    }
    if route_bytes > declared_bytes {
        return refuse(Fault::Field, format!("a route of {route_bytes} bytes whose counts need only {declared_bytes}"));
    }
    Ok(())
}

fn refuse<T>(fault: Fault, message: String) -> Result<T, Refusal> {
    Err(Refusal::new(fault, message))
}
