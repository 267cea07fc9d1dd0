//! Tests: constraints in 24 bytes, which is enough for most of them.
//!
//! An interval or a point of numbers that floats equal, a point of text, a boolean and presence are kinds of tests.
//! Every other constraint is *rich*: it is stored in full beside, and the test has its bounds, so that most values are
//! decided without reading it.

use crate::constraint::{Constraint, Value};
use crate::hash::{hash, hash_text};
use crate::number::{KEY_MAX, KEY_MIN, Number, float_of_key};
use crate::text_pool::{NONE, Pool};
use crate::value_set::{Bound, ValueSet};

/// The kind of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Nothing: the only test of a conjunction that every event satisfies.
    Always,
    /// Numbers with keys from `low` to `high`.
    Interval,
    /// The number with the key `low`.
    Number,
    /// The text with the key `low` and the id `high`.
    Text,
    /// The booleans in the mask `low`.
    Bool,
    /// Any value.
    Present,
    /// No value.
    Absent,
    /// The constraint at `low` among the filter's rich constraints. `high` is its hash, by which classes are looked up.
    Rich,
}

/// The low end of an interval excludes the key below `low`, which is its bound.
pub(crate) const OPEN_LOW: u8 = 1;
/// The high end of an interval excludes the key above `high`, which is its bound.
pub(crate) const OPEN_HIGH: u8 = 2;
/// The interval has no low bound.
pub(crate) const NO_LOW: u8 = 4;
/// The interval has no high bound.
pub(crate) const NO_HIGH: u8 = 8;
/// The last test of its conjunction.
pub(crate) const LAST: u8 = 16;

/// A constraint on one attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Test {
    pub(crate) attr: u32,
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// The key that distinguishes texts: the first four bytes in order, then a hash of the whole.
pub(crate) fn text_key(text: &str, hash: u64) -> u64 {
    u64::from(text_stem(text)) << 32 | hash >> 32
}

fn text_stem(text: &str) -> u32 {
    let mut stem = [0; 4];
    let kept = text.len().min(4);
    stem[..kept].copy_from_slice(&text.as_bytes()[..kept]);
    u32::from_be_bytes(stem)
}

/// A value of an event, prepared for any number of tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) state: State,
    /// The keys around a number; the key of a text, twice.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// The id of a text.
    pub(crate) text: u32,
    /// Position of the value in the event.
    pub(crate) at: u32,
}

/// The state of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    Absent,
    False,
    True,
    Text,
    Number,
    Other,
}

/// The probe of an attribute that the event lacks.
pub(crate) const ABSENT: Probe = Probe { state: State::Absent, low: 0, high: 0, text: NONE, at: 0 };

impl Probe {
    /// Makes the probe of the value at position `at` of an event.
    pub(crate) fn new(value: &Value<'_>, at: usize, texts: &Pool) -> Self {
        let at = at as u32;
        match value {
            Value::Absent => Self { at, ..ABSENT },
            Value::Bool(value) => Self { state: if *value { State::True } else { State::False }, at, ..ABSENT },
            Value::Other => Self { state: State::Other, at, ..ABSENT },
            Value::Number(number) => {
                let (low, high) = number.keys();
                Self { state: State::Number, low, high, text: NONE, at }
            }
            Value::Text(text) => {
                let hash = hash_text(text);
                let key = text_key(text, hash);
                Self { state: State::Text, low: key, high: key, text: texts.find_hashed(text, hash), at }
            }
        }
    }
}

/// The attributes of one event that the index constrains, and their values.
pub(crate) type Event<'a> = [(u32, Value<'a>)];

impl Test {
    /// Whether the value of a probe satisfies; `rich` are the filter's rich constraints.
    #[inline]
    pub(crate) fn accepts(&self, probe: &Probe, event: &Event<'_>, rich: &[Rich]) -> bool {
        match self.kind {
            Kind::Interval | Kind::Number => {
                probe.state == State::Number
                    && self.low <= probe.high
                    && probe.low <= self.high
                    && (probe.low == probe.high || self.accepts_between_keys(probe, event))
            }
            Kind::Text => u64::from(probe.text) == self.high && probe.state == State::Text,
            Kind::Bool => match probe.state {
                State::False => self.low & 1 != 0,
                State::True => self.low & 2 != 0,
                _ => false,
            },
            Kind::Present => probe.state != State::Absent,
            Kind::Absent => probe.state == State::Absent,
            Kind::Always => true,
            Kind::Rich => {
                let rich = &rich[self.low as usize].constraint;
                if probe.state == State::Absent { rich.absent } else { rich.accepts(&event[probe.at as usize].1) }
            }
        }
    }

    #[cold]
    fn accepts_between_keys(&self, probe: &Probe, event: &Event<'_>) -> bool {
        match (&event[probe.at as usize].1, self.numbers()) {
            (Value::Number(number), Some(set)) => set.accepts(number),
            _ => false,
        }
    }

    /// The set of numbers of an interval or number.
    pub(crate) fn numbers(&self) -> Option<ValueSet<Number>> {
        let float = |key| Number::from_float(float_of_key(key)).expect("keys are of floats that are not NaN");
        match self.kind {
            Kind::Number => Some(ValueSet::of_points(vec![float(self.low)])),
            Kind::Interval => {
                let (low_open, high_open) = (self.flags & OPEN_LOW != 0, self.flags & OPEN_HIGH != 0);
                let low = Bound { at: float(self.low - u64::from(low_open)), open: low_open };
                let high = Bound { at: float(self.high + u64::from(high_open)), open: high_open };
                Some(ValueSet {
                    low: (self.flags & NO_LOW == 0).then_some(low),
                    high: (self.flags & NO_HIGH == 0).then_some(high),
                    ..ValueSet::default()
                })
            }
            _ => None,
        }
    }

    /// The constraint that this test represents.
    pub(crate) fn constraint(&self, rich: &[Rich], texts: &Pool) -> Constraint {
        let none = Constraint::default();
        match self.kind {
            Kind::Always => Constraint { absent: true, ..Constraint::present() },
            Kind::Interval | Kind::Number => Constraint { numbers: self.numbers(), ..none },
            Kind::Text => {
                Constraint { texts: Some(ValueSet::of_points(vec![texts.text(self.high as u32).into()])), ..none }
            }
            Kind::Bool => Constraint { bools: [self.low & 1 != 0, self.low & 2 != 0], ..none },
            Kind::Present => Constraint::present(),
            Kind::Absent => Constraint { absent: true, ..none },
            Kind::Rich => rich[self.low as usize].constraint.clone(),
        }
    }
}

/// A constraint in full, with the index's data about it in keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rich {
    pub(crate) constraint: Constraint,
    /// The least and greatest key of its numbers, and of its texts; None if it has none.
    pub(crate) numbers: Option<(u64, u64)>,
    pub(crate) texts: Option<(u64, u64)>,
    /// The keys and ids of the allowed texts, if these are finitely many.
    pub(crate) points: Vec<(u64, u32)>,
}

/// A way to get ids for texts: with a reference (stored filters) or without (queries).
pub(crate) trait TextIds {
    fn id(&mut self, text: &str) -> u32;
}

/// Adds a reference to each text.
pub(crate) struct Interning<'a>(pub(crate) &'a mut Pool);
/// Looks up texts, or returns [`NONE`].
pub(crate) struct LookingUp<'a>(pub(crate) &'a Pool);

impl TextIds for Interning<'_> {
    fn id(&mut self, text: &str) -> u32 {
        self.0.intern(text)
    }
}

impl TextIds for LookingUp<'_> {
    fn id(&mut self, text: &str) -> u32 {
        self.0.find(text)
    }
}

/// Converts a constraint on `attr` to a test; a rich one is appended to `rich`.
pub(crate) fn test_of(attr: u32, constraint: &Constraint, rich: &mut Vec<Rich>, texts: &mut impl TextIds) -> Test {
    simple_test(attr, constraint, texts).unwrap_or_else(|| {
        rich.push(rich_of(constraint, texts));
        Test { attr, kind: Kind::Rich, flags: 0, low: rich.len() as u64 - 1, high: hash(constraint) }
    })
}

fn simple_test(attr: u32, constraint: &Constraint, texts: &mut impl TextIds) -> Option<Test> {
    let test = |kind, low, high| Some(Test { attr, kind, flags: 0, low, high });
    let Constraint { numbers, texts: words, bools, others, absent } = constraint;
    match (numbers, words, *bools != [false; 2], others, absent) {
        (None, None, true, false, false) => test(Kind::Bool, u64::from(bools[0]) | u64::from(bools[1]) << 1, 0),
        (None, None, false, false, true) => test(Kind::Absent, 0, 0),
        (Some(_), Some(_), true, true, false) if *constraint == Constraint::present() => test(Kind::Present, 0, 0),
        (Some(set), None, false, false, false) => simple_numbers(attr, set),
        (None, Some(ValueSet { points: Some(points), .. }), false, false, false) if points.len() == 1 => {
            let only = &*points[0];
            test(Kind::Text, text_key(only, hash_text(only)), u64::from(texts.id(only)))
        }
        _ => None,
    }
}

fn simple_numbers(attr: u32, set: &ValueSet<Number>) -> Option<Test> {
    match &set.points {
        Some(points) if points.len() == 1 => {
            let key = points[0].key()?;
            Some(Test { attr, kind: Kind::Number, flags: 0, low: key, high: key })
        }
        None if set.holes.is_empty() && set.shapes.is_empty() => {
            let mut flags = 0;
            let low = match &set.low {
                None => {
                    flags |= NO_LOW;
                    KEY_MIN
                }
                Some(bound) => {
                    flags |= if bound.open { OPEN_LOW } else { 0 };
                    bound.at.key()? + u64::from(bound.open)
                }
            };
            let high = match &set.high {
                None => {
                    flags |= NO_HIGH;
                    KEY_MAX
                }
                Some(bound) => {
                    flags |= if bound.open { OPEN_HIGH } else { 0 };
                    bound.at.key()? - u64::from(bound.open)
                }
            };
            Some(Test { attr, kind: Kind::Interval, flags, low, high })
        }
        _ => None,
    }
}

fn rich_of(constraint: &Constraint, texts: &mut impl TextIds) -> Rich {
    let points = match &constraint.texts {
        Some(ValueSet { points: Some(points), .. }) => {
            points.iter().map(|text| (text_key(text, hash_text(text)), texts.id(text))).collect()
        }
        _ => Vec::new(),
    };
    Rich {
        constraint: constraint.clone(),
        numbers: constraint.numbers.as_ref().map(number_hull),
        texts: constraint.texts.as_ref().map(text_hull),
        points,
    }
}

fn number_hull(set: &ValueSet<Number>) -> (u64, u64) {
    let (low, high) = match &set.points {
        Some(points) => (points.first(), points.last()),
        None => (set.low.as_ref().map(|bound| &bound.at), set.high.as_ref().map(|bound| &bound.at)),
    };
    (low.map_or(KEY_MIN, |low| low.keys().0), high.map_or(KEY_MAX, |high| high.keys().1))
}

fn text_hull(set: &ValueSet<Box<str>>) -> (u64, u64) {
    let (low, high) = match &set.points {
        Some(points) => (points.first(), points.last()),
        None => (set.low.as_ref().map(|bound| &bound.at), set.high.as_ref().map(|bound| &bound.at)),
    };
    let low = low.map_or(0, |low| u64::from(text_stem(low)) << 32);
    (low, high.map_or(u64::MAX, |high| u64::from(text_stem(high)) << 32 | 0xFFFF_FFFF))
}
