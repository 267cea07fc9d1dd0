//! Texts under small ids, with reference counts: attribute names, and the texts that filters compare for equality.
//!
//! Equal texts have one id, so comparing two texts is comparing two integers. An id is used again when the last filter
//! with its text is gone; every remaining mention of it in the index is dead by then.

use crate::hash::hash_text;
use crate::slab::{Sharded, Slab};

/// No text has this id.
pub(crate) const NONE: u32 = u32::MAX;

/// A set of texts with reference counts.
#[derive(Default)]
pub(crate) struct Pool {
    table: Sharded<u32>,
    texts: Slab<Held>,
}

struct Held {
    text: Box<str>,
    hash: u64,
    holders: u32,
}

impl Pool {
    /// Returns the id of a text, or [`NONE`].
    pub(crate) fn find(&self, text: &str) -> u32 {
        self.find_hashed(text, hash_text(text))
    }

    /// Returns the id of a text whose hash is known.
    pub(crate) fn find_hashed(&self, text: &str, hash: u64) -> u32 {
        let same = |&id: &u32| *self.texts.get(id).text == *text;
        self.table.find(hash, same).copied().unwrap_or(NONE)
    }

    /// Returns the id of a text, and adds a reference.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        let hash = hash_text(text);
        let found = self.find_hashed(text, hash);
        if found != NONE {
            self.texts.get_mut(found).holders += 1;
            return found;
        }
        let id = self.texts.insert(Held { text: text.into(), hash, holders: 1 });
        let texts = &self.texts;
        self.table.insert(hash, id, |&id| texts.get(id).hash);
        id
    }

    /// Drops a reference.
    pub(crate) fn release(&mut self, id: u32) {
        let held = self.texts.get_mut(id);
        held.holders -= 1;
        if held.holders == 0 {
            let hash = held.hash;
            self.table.remove(hash, |&other| other == id);
            self.texts.remove(id);
        }
    }

    /// The text that has an id.
    pub(crate) fn text(&self, id: u32) -> &str {
        &self.texts.get(id).text
    }

    /// The greatest id ever given, plus one.
    pub(crate) fn ids(&self) -> usize {
        self.texts.ids()
    }
}
