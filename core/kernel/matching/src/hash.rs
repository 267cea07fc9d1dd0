//! The hash function of the whole index, seeded once per process: results never depend on the seed.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use std::sync::LazyLock;

static STATE: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// The hash of a text.
pub(crate) fn hash_text(text: &str) -> u64 {
    hash(text.as_bytes())
}

/// The hash of anything.
pub(crate) fn hash<T: Hash>(value: T) -> u64 {
    STATE.hash_one(value)
}
