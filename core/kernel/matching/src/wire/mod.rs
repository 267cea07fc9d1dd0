//! The wire format, as far as routing needs it: frames of a buffer, and attributes of a frame.
//!
//! `plait_core.wire` is the reference: the same bytes are accepted, and others are refused for the same fault.

pub mod attributes;
pub mod frames;
mod msgpack_depth;

use std::fmt;

/// The reason for refusing a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its length, or a length inside it, exceeds a limit.
    Oversize,
    /// It ends before the end that its lengths announce.
    Truncated,
    /// A protocol version that was not negotiated.
    Version,
    /// A frame type that does not exist in this version.
    Type,
    /// A frame out of order.
    Order,
    /// A body that is not msgpack of this frame's shape.
    Body,
    /// A field with a value that is not allowed.
    Field,
}

impl Fault {
    /// The name of the fault in `plait_core`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Oversize => "oversize",
            Self::Truncated => "truncated",
            Self::Version => "version",
            Self::Type => "type",
            Self::Order => "order",
            Self::Body => "body",
            Self::Field => "field",
        }
    }
}

/// Bytes from the network that break the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The fault.
    pub fault: Fault,
    /// The description, for people.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(fault: Fault, message: impl fmt::Display) -> Self {
        Self { fault, message: message.to_string() }
    }
}

/// Limits of received frames; `plait_core.limits` gives the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a frame.
    pub frame_bytes: usize,
    /// Destinations that a forward frame names.
    pub destinations: usize,
    /// Brokers that a path names.
    pub path: usize,
    /// Subscriptions that a deliver frame names.
    pub deliveries: usize,
    /// Attributes of an event.
    pub attributes: usize,
    /// Bytes of a name.
    pub name_bytes: usize,
    /// Bytes of a text.
    pub value_bytes: usize,
    /// Bits of an integer.
    pub int_bits: usize,
    /// Items of a list.
    pub list_items: usize,
    /// Bytes of an event's attributes.
    pub attributes_bytes: usize,
    /// Bytes of an event's headers.
    pub headers_bytes: usize,
    /// Bytes of a payload.
    pub payload_bytes: usize,
}

impl Default for Limits {
    /// The limits of `plait_core.limits`, which the Python package passes in; here for tests and fuzzing.
    fn default() -> Self {
        Self {
            frame_bytes: (1024 + 128) * 1024,
            destinations: 1024,
            path: 64,
            deliveries: 4096,
            attributes: 256,
            name_bytes: 128,
            value_bytes: 16 * 1024,
            int_bits: 256,
            list_items: 1024,
            attributes_bytes: 64 * 1024,
            headers_bytes: 16 * 1024,
            payload_bytes: 1024 * 1024,
        }
    }
}
