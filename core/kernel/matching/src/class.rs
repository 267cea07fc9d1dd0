//! A class: all filters with the same conditions, as one block of tests that all parts of the index share.
//!
//! The holders of a class are one atomic word in it, so removing a filter writes nothing else. Segments, including
//! those being merged in another thread, read the word when a candidate passes all other tests; merging drops dead
//! classes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::attribute_test::{Event, LAST, Probe, Rich, Test};
use crate::hash::hash;

/// Several ids hold the class; the low bits are the number of their list.
const SHARED: u64 = 1 << 63;
/// No id holds the class, and none ever will again.
const DEAD: u64 = u64::MAX;

/// Classes that are prefetched before they are tested: at least as many as memory can load at once.
const AHEAD: usize = 32;

/// Calls `decide` with each of these conjunctions. Each is at a different place in memory, and consecutive cache misses
/// would cost more than everything else. So a first pass touches the conjunctions, and a second decides.
#[inline]
pub(crate) fn decide_all(classes: &[Arc<Class>], conjunctions: &[Conjunction], mut decide: impl FnMut(&Class, u32)) {
    for some in conjunctions.chunks(AHEAD) {
        let mut prefetched = 0;
        if some.len() > 2 {
            let mut ahead = [None; AHEAD];
            for (class, at) in ahead.iter_mut().zip(some) {
                *class = classes.get(at.class as usize);
            }
            for (class, at) in ahead.iter().zip(some) {
                prefetched ^= class.map_or(0, |class| class.prefetch(at.start));
            }
        }
        std::hint::black_box(prefetched);
        for at in some {
            decide(&classes[at.class as usize], at.start);
        }
    }
}

/// The holders of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holders {
    /// This id alone.
    One(u64),
    /// The ids in this list.
    Shared(u32),
    /// No ids.
    Dead,
}

/// A filter's tests, conjunction after conjunction; the last test of each is marked.
pub(crate) struct Class<T: ?Sized = [Test]> {
    holders: AtomicU64,
    more: Option<Box<More>>,
    /// The tests, unless they are many.
    tests: T,
}

/// Data that few filters have.
struct More {
    rich: Vec<Rich>,
    /// All tests, if there are many.
    tests: Vec<Test>,
}

/// A conjunction of a class: where its tests start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conjunction {
    pub(crate) class: u32,
    pub(crate) start: u32,
}

impl Class {
    /// The class of these tests, held by one id.
    pub(crate) fn new(tests: &[Test], rich: Vec<Rich>, id: u64) -> Arc<Self> {
        // One allocation per class: blocks of the usual sizes are built whole and shared as slices.
        macro_rules! sized {
            ($($size:literal)*) => {
                match tests.len() {
                    $($size => Arc::new(build::<$size>(tests, rich, Vec::new(), id)),)*
                    _ => Arc::new(build::<0>(tests, rich, tests.to_vec(), id)),
                }
            };
        }
        sized!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    }

    /// Returns its holders.
    #[inline]
    pub(crate) fn holders(&self) -> Holders {
        match self.holders.load(Ordering::Relaxed) {
            DEAD => Holders::Dead,
            word if word & SHARED != 0 => Holders::Shared(word as u32),
            id => Holders::One(id),
        }
    }

    /// Sets its holders.
    pub(crate) fn set_holders(&self, holders: Holders) {
        let word = match holders {
            Holders::One(id) => id,
            Holders::Shared(list) => SHARED | u64::from(list),
            Holders::Dead => DEAD,
        };
        self.holders.store(word, Ordering::Relaxed);
    }

    /// Whether it has no holders.
    pub(crate) fn is_dead(&self) -> bool {
        self.holders() == Holders::Dead
    }

    /// The rich constraints that its tests refer to.
    pub(crate) fn rich(&self) -> &[Rich] {
        self.more.as_ref().map_or(&[], |more| &more.rich)
    }

    /// The tests of all conjunctions.
    #[inline]
    pub(crate) fn tests(&self) -> &[Test] {
        match &self.more {
            Some(more) if self.tests.is_empty() => &more.tests,
            _ => &self.tests,
        }
    }

    /// The tests of the conjunction that starts at `start`.
    pub(crate) fn conjunction(&self, start: u32) -> &[Test] {
        let from = &self.tests()[start as usize..];
        let last = from.iter().position(|test| test.flags & LAST != 0);
        last.map_or(&[], |last| &from[..=last])
    }

    /// The starts of its conjunctions.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u32> {
        let mut start = 0;
        let lasts = self.tests().iter().enumerate().filter(|(_, test)| test.flags & LAST != 0);
        lasts.map(move |(at, _)| std::mem::replace(&mut start, at as u32 + 1))
    }

    /// Whether an event satisfies the conjunction that starts at `start`.
    #[inline]
    pub(crate) fn accepts(&self, start: u32, probes: &[Probe], event: &Event<'_>) -> bool {
        for test in &self.tests()[start as usize..] {
            if !test.accepts(&probes[test.attr as usize], event, self.rich()) {
                return false;
            }
            if test.flags & LAST != 0 {
                return true;
            }
        }
        false
    }

    /// Touches the data that `decide` needs, so that the cache misses of many classes overlap.
    #[inline]
    pub(crate) fn prefetch(&self, start: u32) -> u64 {
        // Every second test, so at least one in each cache line.
        let tests = self.tests.iter().skip(start as usize).step_by(2).take(4);
        tests.fold(self.holders.load(Ordering::Relaxed), |all, test| all ^ test.low)
    }

    /// Whether it has exactly these tests.
    pub(crate) fn has_tests(&self, tests: &[Test], rich: &[Rich]) -> bool {
        self.tests() == tests && self.rich() == rich
    }
}

fn build<const N: usize>(tests: &[Test], rich: Vec<Rich>, many: Vec<Test>, id: u64) -> Class<[Test; N]> {
    let more = !rich.is_empty() || !many.is_empty();
    Class {
        holders: AtomicU64::new(id),
        more: more.then(|| Box::new(More { rich, tests: many })),
        tests: std::array::from_fn(|at| tests[at]),
    }
}

/// The hash by which classes are looked up.
pub(crate) fn hash_tests(tests: &[Test]) -> u64 {
    hash(tests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute_test::{Interning, Kind, test_of};
    use crate::constraint::Constraint;
    use crate::number::Number;
    use crate::text_pool::Pool;
    use crate::value_set::ValueSet;

    #[test]
    fn classes_of_different_sets_have_different_hashes() {
        let mut pool = Pool::default();
        let mut hash_of = |points: [i64; 2]| {
            let points = points.map(Number::Int).to_vec();
            let constraint = Constraint { numbers: Some(ValueSet::of_points(points)), ..Constraint::default() };
            hash_tests(&[test_of(1, &constraint, &mut Vec::new(), &mut Interning(&mut pool))])
        };
        let mut hashes: Vec<u64> = (0..1000).map(|number| hash_of([number, -1])).collect();
        assert_eq!(hash_of([-1, 7]), hashes[7]);
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 1000, "else each addition is compared with all classes");
    }

    #[test]
    fn conjunctions_of_any_size() {
        for size in [1_u32, 2, 12, 13, 16, 17, 600] {
            let test =
                |attr| Test { attr, kind: Kind::Present, flags: LAST * u8::from(attr % 3 == 0), low: 0, high: 0 };
            let mut tests: Vec<Test> = (0..size).map(test).collect();
            tests.last_mut().expect("one at least").flags = LAST;
            let class = Class::new(&tests, Vec::new(), 7);
            assert!(class.has_tests(&tests, &[]));
            assert_eq!(hash_tests(class.tests()), hash_tests(&tests));
            let whole: Vec<Test> = class.starts().flat_map(|start| class.conjunction(start).to_vec()).collect();
            assert_eq!(whole, tests);
        }
    }
}
