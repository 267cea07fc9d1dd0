//! Slots: each attribute's states cut into at most 64 runs, so that a set of states is a run of slots.
//!
//! Slot 0 is absence; then false, true, texts by key, numbers by key, and values that no filter compares. The cuts are
//! quantiles of the filters' bounds, so applications never declare a domain. The values that a test accepts lie within
//! its *hull*, from the first of their slots to the last: hulls exclude candidates, tests decide.

use crate::attribute_test::{Kind, NO_HIGH, NO_LOW, OPEN_HIGH, OPEN_LOW, Probe, Rich, State, Test};
use crate::class::Class;
use crate::inner_hulls::{COLUMNS, Points};
use crate::number::{KEY_MAX, KEY_MIN};
use crate::text_pool::NONE;

/// Cuts of the texts and the numbers of one attribute, together: with the other states they make 64 slots.
pub(crate) const CUTS_MAX: usize = 58;
/// As `CUTS_MAX`, where slots alone may decide. All slots are below the special points.
pub(crate) const CUTS_FINER: usize = 230;

const FALSE: u8 = 1;
const TRUE: u8 = 2;
const TEXTS: u8 = 3;

/// The point of a text that equals none of the texts with a slot of their own.
const ELSE: u8 = 255;
/// The point of a number between two keys, which slots cannot classify.
const VAGUE: u8 = 254;

/// A run of slots, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hull {
    pub(crate) low: u8,
    pub(crate) high: u8,
}

impl Hull {
    /// The hull that overlaps every hull and lies within every hull.
    pub(crate) const ANY: Self = Self { low: 255, high: 0 };
    /// The hull that lies only within the greatest.
    pub(crate) const UNKNOWN: Self = Self { low: 0, high: 255 };
    /// The hull of absence.
    pub(crate) const ABSENT: Self = Self { low: 0, high: 0 };
    /// The inner hull of a test that accepts every state.
    pub(crate) const OPEN: Self = Self { low: 0, high: ELSE };

    /// Returns the hull that lies within exactly the hulls that overlap this one. For an empty hull, returns one that lies
    /// within every hull.
    pub(crate) fn swapped(self) -> Self {
        if self.low <= self.high { Self { low: self.high, high: self.low } } else { Self::ANY }
    }

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
    /// For each slot of texts, the id of the one text in it, as far as keys distinguish texts, or [`NONE`].
    only: Vec<u32>,
}

impl Cuts {
    /// Makes at most this many cuts, at quantiles of these keys, which are bounds of filters in any order.
    pub(crate) fn new(attr: u32, mut texts: Vec<u64>, mut numbers: Vec<u64>, most: usize) -> Self {
        let all = texts.len() + numbers.len();
        let share = (most * texts.len()).checked_div(all).unwrap_or(0);
        let text_cuts = if texts.is_empty() { 0 } else { share.clamp(8, most - 8) };
        let room = if numbers.is_empty() { most } else { text_cuts };
        let (texts, numbers) = (quantiles(&mut texts, room), quantiles(&mut numbers, most - text_cuts));
        Self { attr, only: vec![NONE; texts.len() + 1], texts, numbers }
    }

    /// Records which of these texts, given by key and id, have a slot of their own.
    pub(crate) fn name_texts(&mut self, texts: &[(u64, u32)]) {
        for &(key, id) in texts {
            let slot = usize::from(rank(&self.texts, key));
            let own = slot > 0 && self.texts[slot - 1] == key;
            if own && self.texts.get(slot).is_some_and(|&next| next - 1 == key) {
                self.only[slot] = id;
            }
        }
    }

    /// Number of slots.
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

    /// Returns the slot of a value. A number between two keys that a cut separates has none: any hull may contain it.
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

    /// Returns the slot of a value, and its point: the slot again, if all values of that slot satisfy every test with
    /// the slot in its inner hull.
    #[inline]
    pub(crate) fn place(&self, probe: &Probe) -> (Hull, u8) {
        let hull = self.of_probe(probe);
        (hull, self.point(probe, hull))
    }

    #[inline]
    fn point(&self, probe: &Probe, hull: Hull) -> u8 {
        match probe.state {
            State::Text if probe.text == NONE || self.only[usize::from(hull.low - TEXTS)] != probe.text => ELSE,
            State::Number if probe.low != probe.high => VAGUE,
            _ => hull.low,
        }
    }

    /// Returns the slots of which a test accepts every value. If there are none, returns crossed ends such that the
    /// test accepts nothing more than one slot from either. None if slots do not decide.
    pub(crate) fn inner_of_test(&self, test: &Test) -> Option<Hull> {
        Some(match test.kind {
            Kind::Always => Hull::OPEN,
            Kind::Interval | Kind::Number => {
                let below = |key: u64| self.numbers.partition_point(|&cut| cut < key) as u8;
                let first = if test.flags & NO_LOW != 0 { 0 } else { below(test.low) + 1 };
                let after = if test.flags & NO_HIGH != 0 {
                    self.numbers.len() as u8 + 1
                } else {
                    rank(&self.numbers, test.high + 1)
                };
                Hull { low: self.numbers_from() + first, high: self.numbers_from() + after - 1 }
            }
            Kind::Text => {
                let slot = self.text(test.low);
                if u64::from(self.only[usize::from(slot - TEXTS)]) != test.high {
                    return None;
                }
                Hull { low: slot, high: slot }
            }
            Kind::Bool => self.of_test(test, &[]),
            Kind::Present => Hull { low: FALSE, high: ELSE },
            Kind::Absent => Hull::ABSENT,
            Kind::Rich => return None,
        })
    }

    /// Returns the hull of the accepted values. Open ends count as closed, so that hulls contain one another as tests
    /// do.
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

/// The slots of an event's values, or the hulls of a query, by local number.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pub(crate) hulls: Vec<Hull>,
    /// The points of an event's values; empty for a query, which has no certain matches.
    points: Vec<u8>,
}

impl Slots {
    /// Sets the slots of absence, for local numbers below `locals`.
    #[inline]
    pub(crate) fn make_room(&mut self, locals: usize) {
        if self.points.len() < locals {
            self.clear(Hull::ABSENT, locals);
            self.points.resize(locals, Hull::ABSENT.low);
        }
    }

    /// Sets the same hull everywhere, without certain matches.
    pub(crate) fn clear(&mut self, hull: Hull, locals: usize) {
        self.points.clear();
        self.hulls.clear();
        self.hulls.resize(locals, hull);
    }

    /// Sets the slot of a value.
    #[inline]
    pub(crate) fn put(&mut self, local: usize, (hull, point): (Hull, u8)) {
        self.hulls[local] = hull;
        if let Some(place) = self.points.get_mut(local) {
            *place = point;
        }
    }

    /// Returns the points in some columns, unless no match is certain.
    #[inline]
    pub(crate) fn points(&self, columns: &[u16; COLUMNS]) -> Option<Points> {
        let points = (!self.points.is_empty()).then(|| columns.map(|local| self.points[usize::from(local)]));
        points.filter(|points| !points.contains(&VAGUE)).map(Points::new)
    }
}

/// Number of sorted cuts at or below a key.
#[inline]
fn rank(cuts: &[u64], key: u64) -> u8 {
    cuts.partition_point(|&cut| cut <= key) as u8
}

/// Selects at most `room` of these keys, as evenly spaced in rank as repetitions allow.
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

/// The cuts of many attributes, under small local numbers from 1; 0 means none.
#[derive(Clone, Debug)]
pub(crate) struct Slotter {
    local_of: Vec<u16>,
    pub(crate) cuts: Vec<Cuts>,
}

impl Slotter {
    /// A slotter without attributes.
    pub(crate) fn new() -> Self {
        Self { local_of: Vec::new(), cuts: vec![Cuts::new(u32::MAX, Vec::new(), Vec::new(), 0)] }
    }

    /// Returns the local number of an attribute, or 0.
    #[inline]
    pub(crate) fn local(&self, attr: u32) -> u16 {
        self.local_of.get(attr as usize).copied().unwrap_or(0)
    }

    /// Number of local numbers, including 0.
    pub(crate) fn len(&self) -> usize {
        self.cuts.len()
    }

    /// Gives a number to an attribute that has none, unless there are too many.
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

    /// Returns the hulls of a conjunction's tests, by local number, without attributes that have no number.
    pub(crate) fn hulls(&self, class: &Class, start: u32, into: &mut Vec<(u16, Hull)>) {
        into.clear();
        for test in class.conjunction(start) {
            let local = self.local(test.attr);
            if local != 0 && test.kind != Kind::Always {
                let hull = self.cuts[usize::from(local)].of_test(test, class.rich());
                // A test that no value satisfies may be anywhere.
                into.push((local, if hull.low <= hull.high { hull } else { Hull::ABSENT }));
            }
        }
    }
}
