//! The classes whose holders changed since the building of a segment began. A segment copies the holders of each class,
//! so that a certain match needs no access to the class itself. Where a bit is set here, the copy is out of date.
//!
//! Classes are identified by their numbers in the index. A number is used again only after its class is dead, and then
//! its bit is set: a segment then reads the class stored under that number, which has no holders.

use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each class that a segment may contain.
#[derive(Debug, Default)]
pub(crate) struct Changes(Box<[AtomicU64]>);

impl Changes {
    /// No changes, for classes with numbers below `numbers`.
    pub(crate) fn none(numbers: usize) -> Self {
        Self(std::iter::repeat_with(AtomicU64::default).take(numbers.div_ceil(64)).collect())
    }

    /// Marks a class as changed. Only the index writes, and its calls do not overlap.
    pub(crate) fn mark(&self, number: u32) {
        if let Some(word) = self.0.get(number as usize / 64) {
            word.store(word.load(Ordering::Relaxed) | 1 << (number % 64), Ordering::Relaxed);
        }
    }

    /// Whether a class changed. Unknown classes count as changed.
    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_none_or(|word| word.load(Ordering::Relaxed) >> (number % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_and_unknown_classes_count_as_changed() {
        let changes = Changes::none(130);
        for number in [0, 63, 64, 129, 4000] {
            changes.mark(number);
        }
        let marked: Vec<u32> = (0..130).filter(|&number| changes.has(number)).collect();
        assert_eq!(marked, [0, 63, 64, 129]);
        assert!(changes.has(192) && changes.has(4000), "nothing is known of them");
        assert!(Changes::default().has(0));
    }
}
