//! Routes one read of the network: from bytes to the matches of each event, in one call.

use crate::constraint::Value;
use crate::index::Index;
use crate::text_pool::{NONE, Pool};
use crate::wire::attributes::{self, Sink};
use crate::wire::frames::{FORWARD, Frame, PUBLISH, Splitter};
use crate::wire::{Limits, Refusal};

/// The frames of a buffer, and the matches of those that carry an event.
#[derive(Debug, Default)]
pub struct Matches {
    /// The frames, each with the end of its ids.
    pub frames: Vec<(Frame, usize)>,
    /// The ids of all frames.
    pub ids: Vec<u64>,
    /// Number of bytes that the frames take up.
    pub taken: usize,
    /// The reason for refusing the next frame, if it is refused.
    pub refusal: Option<Refusal>,
}

/// Keeps the attributes that filters constrain.
struct Known<'e, 'a> {
    names: &'e Pool,
    event: &'e mut Vec<(u32, Value<'a>)>,
}

impl<'a> Sink<'a> for Known<'_, 'a> {
    #[inline]
    fn take(&mut self, name: &'a str, value: Value<'a>) -> bool {
        let attr = self.names.find(name);
        if attr != NONE {
            self.event.push((attr, value));
        }
        attr != NONE
    }
}

impl Index {
    /// Splits a buffer into frames, and matches those that carry an event to route.
    pub fn match_many(&mut self, buffer: &[u8], splitter: &Splitter) -> Matches {
        let mut matches = Matches::default();
        let mut event = Vec::new();
        loop {
            match self.match_next(buffer, splitter, &mut matches, &mut event) {
                Ok(true) => {}
                Ok(false) => return matches,
                Err(refusal) => {
                    matches.refusal = Some(refusal);
                    return matches;
                }
            }
        }
    }

    /// Processes one frame. Returns false if the rest of the buffer has no complete and valid one.
    fn match_next<'a>(
        &mut self,
        buffer: &'a [u8],
        splitter: &Splitter,
        matches: &mut Matches,
        event: &mut Vec<(u32, Value<'a>)>,
    ) -> Result<bool, Refusal> {
        let Some(frame) = splitter.next(buffer, matches.taken)? else { return Ok(false) };
        if matches!(frame.number, PUBLISH | FORWARD) {
            event.clear();
            self.read_event(frame.attributes(buffer), &splitter.limits, event)?;
            self.matches(event, &mut matches.ids);
        }
        matches.frames.push((frame, matches.ids.len()));
        matches.taken = frame.end;
        Ok(true)
    }

    /// Decodes the attributes that filters constrain from msgpack.
    ///
    /// # Errors
    /// The bytes are not the attributes of an event.
    pub fn read_event<'a>(
        &self,
        packed: &'a [u8],
        limits: &Limits,
        event: &mut Vec<(u32, Value<'a>)>,
    ) -> Result<(), Refusal> {
        attributes::read(packed, limits, &mut Known { names: &self.names, event })
    }
}
