//! The bodies of the fuzz targets: plain functions of bytes, which both cargo-fuzz and cargo's tests call.

use std::collections::BTreeMap;

use crate::constraint::{Constraint, Value};
use crate::number::Number;
use crate::shape::{Operator, Shape};
use crate::value_set::{Bound, ValueSet};
use crate::wire::Limits;
use crate::wire::attributes::{self, Sink};
use crate::wire::frames::{Number as FrameNumber, Splitter};
use crate::{Form, Index};

const NAMES: [&str; 4] = ["a", "b", "c.d", "$e"];
const TEXTS: [&str; 8] = ["", "a", "ab", "abc", "b", "é", "abcdefgh", "\u{10FFFF}"];

/// Splits any bytes into frames, and at most one refusal, which must not depend on how the bytes are cut.
///
/// # Panics
/// If the fuzzer has found a violation.
pub fn frames(data: &[u8]) {
    let controls = [(0x10, FrameNumber::Opening), (0x12, FrameNumber::Close), (0x13, FrameNumber::Control)];
    let splitter = Splitter::new(Limits::default(), 1, &controls);
    let mut index = Index::new();
    let present = |name: &str| Form(vec![vec![(name.into(), Constraint::present())]]);
    for (id, name) in (0..).zip(NAMES) {
        index.add(id, &present(name)).expect("a new id");
    }
    let matches = index.match_many(data, &splitter);
    let mut at = 0;
    for (frame, _) in &matches.frames {
        assert_eq!(frame.start, at, "frames follow one another");
        assert!(frame.start < frame.body && frame.body <= frame.attributes_end && frame.attributes_end <= frame.end);
        at = frame.end;
    }
    assert_eq!(matches.taken, at);
    assert!(at <= data.len());
    for cut in [at, at / 2, data.len() / 2, data.len().saturating_sub(1)] {
        let some = index.match_many(&data[..cut], &splitter);
        assert_eq!(some.frames[..], matches.frames[..some.frames.len()], "what came first is what it was");
    }
    let mut seen = Seen(BTreeMap::new());
    if attributes::read(data, &Limits::default(), &mut seen).is_ok() {
        assert!(seen.0.len() <= Limits::default().attributes);
    }
}

struct Seen<'a>(BTreeMap<&'a str, Value<'a>>);

impl<'a> Sink<'a> for Seen<'a> {
    fn take(&mut self, name: &'a str, value: Value<'a>) -> bool {
        self.0.insert(name, value);
        false
    }
}

/// Runs a history of filters and events encoded in any bytes, and compares each result with brute force.
///
/// # Panics
/// If the fuzzer has found a difference.
pub fn filters(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut index = Index::new();
    let mut known: BTreeMap<u64, Form> = BTreeMap::new();
    while let Some(what) = bytes.next() {
        let id = u64::from(what >> 4);
        match what & 0x0F {
            0..6 => {
                let form = bytes.form();
                assert_eq!(index.add(id, &form).is_ok(), !known.contains_key(&id));
                known.entry(id).or_insert(form);
            }
            6..8 => assert_eq!(index.remove(id).is_ok(), known.remove(&id).is_some()),
            8 => index.settle(),
            9..14 => {
                let event: BTreeMap<&str, Value<'_>> = NAMES.iter().map(|&name| (name, bytes.value())).collect();
                let numbered: Vec<(u32, Value<'_>)> =
                    event.iter().filter_map(|(name, value)| Some((index.attribute(name)?, value.clone()))).collect();
                let mut found = Vec::new();
                index.matches(&numbered, &mut found);
                let accepts = |form: &Form| {
                    form.0.iter().any(|all| all.iter().all(|(name, constraint)| constraint.accepts(&event[&**name])))
                };
                assert_eq!(found, ids(&known, accepts), "{event:?}");
            }
            _ => {
                let queried = bytes.form();
                let mut found = Vec::new();
                index.covering(&queried, &mut found);
                assert_eq!(found, ids(&known, |form| covers(form, &queried)), "covering {queried:?}");
                found.clear();
                index.covered(&queried, &mut found);
                assert_eq!(found, ids(&known, |form| covers(&queried, form)), "covered by {queried:?}");
                found.clear();
                index.intersecting(&queried, &mut found);
                assert_eq!(found, ids(&known, |form| intersects(form, &queried)), "intersecting {queried:?}");
            }
        }
    }
}

fn ids(known: &BTreeMap<u64, Form>, accepts: impl Fn(&Form) -> bool) -> Vec<u64> {
    known.iter().filter(|(_, form)| accepts(form)).map(|(&id, _)| id).collect()
}

type Conjunction = [(Box<str>, Constraint)];

fn of<'a>(conjunction: &'a Conjunction, name: &str) -> Option<&'a Constraint> {
    conjunction.iter().find(|(other, _)| **other == *name).map(|(_, constraint)| constraint)
}

fn covers(wide: &Form, narrow: &Form) -> bool {
    let covers = |wide: &Conjunction, narrow: &Conjunction| {
        wide.iter().all(|(name, outer)| of(narrow, name).is_some_and(|inner| outer.includes(inner)))
    };
    narrow.0.iter().all(|narrow| wide.0.iter().any(|wide| covers(wide, narrow)))
}

fn intersects(one: &Form, other: &Form) -> bool {
    let meet = |one: &Conjunction, other: &Conjunction| {
        one.iter().all(|(name, a)| of(other, name).is_none_or(|b| a.intersects(b)))
    };
    one.0.iter().any(|one| other.0.iter().any(|other| meet(one, other)))
}

/// A reader of the fuzzer's bytes; zeroes after their end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.next().unwrap_or(0) % bound
    }

    fn number(&mut self) -> Number {
        let small = self.below(32);
        match small {
            0..24 => Number::Int(i64::from(small) - 4),
            24 => Number::Int((1 << 53) + i64::from(self.below(3))),
            25 => Number::Int(i64::MAX - i64::from(self.below(3))),
            26 => Number::from_u64(u64::MAX - u64::from(self.below(3))),
            27 => Number::from_signed_bytes(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.below(3)]),
            28 => Number::from_signed_bytes(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.below(3)]),
            _ => Number::from_float(f64::from(self.below(64)) / 8.0 - 2.0).expect("not NaN"),
        }
    }

    fn text(&mut self) -> Box<str> {
        TEXTS[usize::from(self.below(8))].into()
    }

    fn value(&mut self) -> Value<'static> {
        match self.below(8) {
            0 => Value::Absent,
            1 => Value::Other,
            2 => Value::Bool(self.below(2) == 1),
            3..5 => Value::Text(TEXTS[usize::from(self.below(8))]),
            _ => Value::Number(self.number()),
        }
    }

    fn set<T: Ord>(&mut self, mut point: impl FnMut(&mut Self) -> T) -> ValueSet<T> {
        let mut set = ValueSet::default();
        match self.below(6) {
            0 => set.points = Some((0..=self.below(3)).map(|_| point(self)).collect()),
            1 => set.holes = (0..=self.below(2)).map(|_| point(self)).collect(),
            2 => set.low = Some(Bound { at: point(self), open: self.below(2) == 1 }),
            3 => set.high = Some(Bound { at: point(self), open: self.below(2) == 1 }),
            _ => {
                let (a, b) = (point(self), point(self));
                if a != b {
                    let (low, high) = if a < b { (a, b) } else { (b, a) };
                    set.low = Some(Bound { at: low, open: self.below(2) == 1 });
                    set.high = Some(Bound { at: high, open: self.below(2) == 1 });
                }
            }
        }
        set
    }

    fn shape(&mut self) -> Shape {
        let operators = [Operator::StartsWith, Operator::EndsWith, Operator::Contains, Operator::Like];
        let operator = operators[usize::from(self.below(4))];
        let text = match operator {
            Operator::Like => ["%a%b", "a_c", "_%", "%"][usize::from(self.below(4))].into(),
            _ => self.text(),
        };
        Shape { operator, text, negated: self.below(2) == 1 }
    }

    fn constraint(&mut self) -> Constraint {
        let none = Constraint::default();
        match self.below(8) {
            0 => Constraint::present(),
            1 => Constraint { absent: true, ..none },
            2 => Constraint { bools: [self.below(2) == 1, true], ..none },
            3 => Constraint { texts: Some(self.set(Self::text).sorted()), ..none },
            4 => {
                let shapes = (0..=self.below(2)).map(|_| self.shape()).collect();
                Constraint { texts: Some(ValueSet { shapes, ..ValueSet::default() }.sorted()), ..none }
            }
            5 => Constraint {
                numbers: Some(self.set(Self::number).sorted()),
                texts: Some(self.set(Self::text).sorted()),
                bools: [self.below(2) == 1, self.below(2) == 1],
                others: self.below(2) == 1,
                absent: self.below(2) == 1,
            },
            _ => Constraint { numbers: Some(self.set(Self::number).sorted()), ..none },
        }
    }

    fn form(&mut self) -> Form {
        let alternatives = self.below(4);
        let form = (0..alternatives).map(|_| {
            let which = self.below(16);
            let names = NAMES.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1);
            names.map(|(_, &name)| (name.into(), self.constraint())).collect()
        });
        Form(form.collect())
    }
}

#[cfg(test)]
mod tests {
    /// Inputs generated from a seed: of all lengths, some constant, some containing the beginnings of frames.
    fn inputs(count: u64) -> impl Iterator<Item = Vec<u8>> {
        (0..count).map(|seed| {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut next = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            };
            let mut bytes: Vec<u8> = (0..next() % 600).map(|_| next() as u8).collect();
            if seed % 3 == 0 {
                let (size, kind) = (bytes.len().saturating_sub(8) as u32 / 2, 1 + next() as u8 % 3);
                let start = [size.to_be_bytes().as_slice(), &[1, kind, 0, 2], &[0; 34], &[0, 0, 0, 0, 0, 9]].concat();
                bytes.splice(0..0, start);
            }
            bytes
        })
    }

    #[test]
    fn frames() {
        inputs(20_000).for_each(|bytes| super::frames(&bytes));
    }

    #[test]
    fn filters() {
        inputs(5_000).for_each(|bytes| super::filters(&bytes));
    }
}
