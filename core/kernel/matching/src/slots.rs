//! Slots: each attribute's states cut into at most 64 runs, so that a set of states is a run of slots.
//!
//! Slot 0 is absence; then false, true, texts by key, numbers by key, and what no filter compares. The cuts are
//! quantiles of the bounds that filters name, so nobody declares a domain. What a test accepts lies within its *hull*,
//! from its first slot to its last: hulls rule candidates out, tests decide.

use crate::class::Class;
use crate::number::{KEY_MAX, KEY_MIN};
use crate::test::{Kind, NO_HIGH, NO_LOW, OPEN_HIGH, OPEN_LOW, Probe, Rich, State, Test};

/// Cuts of the texts and the numbers of one attribute, together: with the other states they make 64 slots.
pub(crate) const CUTS_MAX: usize = 58;

const FALSE: u8 = 1;
const TRUE: u8 = 2;
const TEXTS: u8 = 3;

/// A run of slots, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) low: u8,
    pub(crate) high: u8,
}

impl Hull {
    /// The hull that overlaps every hull and lies within every hull.
    pub(crate) const ANY: Self = Self { low: 255, high: 0 };
    /// The hull that lies within none but the greatest.
    pub(crate) const UNKNOWN: Self = Self { low: 0, high: 255 };
    /// The hull of absence.
    pub(crate) const ABSENT: Self = Self { low: 0, high: 0 };

    /// Whether this hull contains another.
    #[inline]
    pub(crate) fn contains(self, other: Self) -> bool {
        self.low <= other.low && other.high <= self.high
    }
}

/// The cuts of one attribute.
#[derive(Clone, Debug)]
pub(crate) struct Cuts {
    pub(crate) attr: u32,
    texts: Vec<u64>,
    numbers: Vec<u64>,
}

impl Cuts {
    /// The cuts at quantiles of these keys, which are those that filters name. They need not be in order.
    pub(crate) fn new(attr: u32, mut texts: Vec<u64>, mut numbers: Vec<u64>) -> Self {
        let all = texts.len() + numbers.len();
        let share = (CUTS_MAX * texts.len()).checked_div(all).unwrap_or(0);
        let text_cuts = if texts.is_empty() { 0 } else { share.clamp(8, CUTS_MAX - 8) };
        let room = if numbers.is_empty() { CUTS_MAX } else { text_cuts };
        Self { attr, texts: quantiles(&mut texts, room), numbers: quantiles(&mut numbers, CUTS_MAX - text_cuts) }
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        usize::from(self.other()) + 1
    }

    fn numbers_from(&self) -> u8 {
        TEXTS + self.texts.len() as u8 + 1
    }

    fn other(&self) -> u8 {
        self.numbers_from() + self.numbers.len() as u8 + 1
    }

    fn text(&self, key: u64) -> u8 {
        TEXTS + rank(&self.texts, key)
    }

    fn number(&self, key: u64) -> u8 {
        self.numbers_from() + rank(&self.numbers, key)
    }

    /// The slot of a value. A number between two keys that are cut apart has none: any hull may contain it.
    #[inline]
    pub(crate) fn of_probe(&self, probe: &Probe) -> Hull {
        let slot = match probe.state {
            State::Absent => 0,
            State::False => FALSE,
            State::True => TRUE,
            State::Text => self.text(probe.low),
            State::Number => {
                let slot = self.number(probe.low);
                if probe.low != probe.high && self.number(probe.high) != slot {
                    return Hull::ANY;
                }
                slot
            }
            State::Other => self.other(),
        };
        Hull { low: slot, high: slot }
    }

    /// The hull of what a test accepts. Open ends count as closed, so that hulls contain one another as tests do.
    pub(crate) fn of_test(&self, test: &Test, rich: &[Rich]) -> Hull {
        let (low, high) = match test.kind {
            Kind::Always => (0, self.other()),
            Kind::Interval | Kind::Number => {
                let low =
                    if test.flags & NO_LOW != 0 { KEY_MIN } else { test.low - u64::from(test.flags & OPEN_LOW != 0) };
                let high = if test.flags & NO_HIGH != 0 {
                    KEY_MAX
                } else {
                    test.high + u64::from(test.flags & OPEN_HIGH != 0)
                };
                (self.number(low), self.number(high))
            }
            Kind::Text => (self.text(test.low), self.text(test.low)),
            Kind::Bool => match test.low {
                1 => (FALSE, FALSE),
                2 => (TRUE, TRUE),
                _ => (FALSE, TRUE),
            },
            Kind::Present => (FALSE, self.other()),
            Kind::Absent => (0, 0),
            Kind::Rich => return self.of_rich(&rich[test.low as usize]),
        };
        Hull { low, high }
    }

    fn of_rich(&self, rich: &Rich) -> Hull {
        let mut hull = Hull::ANY;
        let mut add = |low: u8, high: u8| {
            hull.low = hull.low.min(low);
            hull.high = hull.high.max(high);
        };
        let Rich { constraint, numbers, texts, .. } = rich;
        if constraint.absent {
            add(0, 0);
        }
        if constraint.bools[0] {
            add(FALSE, FALSE);
        }
        if constraint.bools[1] {
            add(TRUE, TRUE);
        }
        if let Some((low, high)) = *texts {
            add(self.text(low), self.text(high));
        }
        if let Some((low, high)) = *numbers {
            add(self.number(low), self.number(high));
        }
        if constraint.others {
            add(self.other(), self.other());
        }
        hull
    }
}

/// How many of some sorted cuts are at or below a key.
#[inline]
fn rank(cuts: &[u64], key: u64) -> u8 {
    cuts.partition_point(|&cut| cut <= key) as u8
}

/// At most `room` of these keys, as evenly apart in rank as their repetitions allow.
fn quantiles(keys: &mut [u64], room: usize) -> Vec<u64> {
    keys.sort_unstable();
    let count = keys.len();
    let mut distinct = keys.to_vec();
    distinct.dedup();
    if distinct.len() <= room {
        return distinct;
    }
    let mut cuts: Vec<u64> = (0..room).map(|cut| keys[(2 * cut + 1) * count / (2 * room)]).collect();
    cuts.dedup();
    cuts
}

/// The cuts of many attributes, under small local numbers from 1; 0 is no attribute.
#[derive(Clone, Debug)]
pub(crate) struct Slotter {
    local_of: Vec<u16>,
    pub(crate) cuts: Vec<Cuts>,
}

impl Slotter {
    /// The slotter that knows no attribute.
    pub(crate) fn new() -> Self {
        Self { local_of: Vec::new(), cuts: vec![Cuts::new(u32::MAX, Vec::new(), Vec::new())] }
    }

    /// The local number of an attribute, or 0.
    #[inline]
    pub(crate) fn local(&self, attr: u32) -> u16 {
        self.local_of.get(attr as usize).copied().unwrap_or(0)
    }

    /// How many local numbers there are, that of no attribute included.
    pub(crate) fn len(&self) -> usize {
        self.cuts.len()
    }

    /// Numbers an attribute that has no number, unless there are too many.
    pub(crate) fn add(&mut self, cuts: Cuts) -> u16 {
        if self.cuts.len() >= usize::from(u16::MAX) {
            return 0;
        }
        let local = self.cuts.len() as u16;
        let attr = cuts.attr as usize;
        if self.local_of.len() <= attr {
            self.local_of.resize(attr + 1, 0);
        }
        self.local_of[attr] = local;
        self.cuts.push(cuts);
        local
    }

    /// The hulls of a conjunction's tests, by local number; attributes without one are left out.
    pub(crate) fn hulls(&self, class: &Class, start: u32, into: &mut Vec<(u16, Hull)>) {
        into.clear();
        for test in class.conjunction(start) {
            let local = self.local(test.attr);
            if local != 0 && test.kind != Kind::Always {
                let hull = self.cuts[usize::from(local)].of_test(test, class.rich());
                // What nothing satisfies may stand anywhere.
                into.push((local, if hull.low <= hull.high { hull } else { Hull::ABSENT }));
            }
        }
    }
}
