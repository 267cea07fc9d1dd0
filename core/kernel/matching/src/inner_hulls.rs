//! Inner hulls: the slots of which a test accepts every value.
//!
//! An event with all values in the inner hulls of a conjunction certainly satisfies it. An event with a value more than
//! one slot outside certainly does not. The holder is stored with the hulls: 32 bytes, next to those of neighbours, so
//! that a scan does not touch classes elsewhere in memory.

use crate::class::Holders;
use crate::class_changes::Changes;
use crate::slots::Hull;

/// Attributes with inner hulls in one matrix or run.
pub(crate) const COLUMNS: usize = 8;

/// Replaces the number of a class: no match is certain, for any slots.
const ASK: u32 = u32::MAX;

/// The result for a conjunction without its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It matches, and only this id holds it.
    Certain(u64),
    /// The tests must decide.
    Open,
    /// It does not match.
    Out,
}

/// The inner hulls and holder of a conjunction. Two of them are a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Row {
    /// Low ends, then the complements of high ends: one subtraction gives the distance of a point from all ends.
    ends: [u8; 2 * COLUMNS],
    id: u64,
    number: u32,
}

impl Row {
    /// Builds the row of a conjunction with these inner hulls, by column; None for tests without one. `number` is its
    /// class's.
    pub(crate) fn new(hulls: [Option<Hull>; COLUMNS], whole: bool, holders: Holders, number: u32) -> Self {
        let (id, number) = match holders {
            Holders::One(id) if whole && hulls.iter().all(Option::is_some) => (id, number),
            _ => (0, ASK),
        };
        let hulls = hulls.map(|hull| hull.unwrap_or(Hull::OPEN));
        Self { ends: ends(hulls.map(|hull| hull.low), hulls.map(|hull| hull.high)), id, number }
    }

    /// Returns the result for values at these points. A test accepts no slot more than one beyond its inner hull,
    /// because its bounds are in the next slot.
    #[inline]
    pub(crate) fn verdict(&self, Points(points): &Points, changes: &Changes) -> Verdict {
        let far = self.ends.iter().zip(points).map(|(end, point)| end.saturating_sub(*point));
        match far.fold(0, u8::max) {
            0 if !changes.has(self.number) => Verdict::Certain(self.id),
            0 | 1 => Verdict::Open,
            _ => Verdict::Out,
        }
    }
}

/// Points of an event's values, arranged like rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Points([u8; 2 * COLUMNS]);

impl Points {
    /// These points, by column.
    #[inline]
    pub(crate) fn new(points: [u8; COLUMNS]) -> Self {
        Self(ends(points, points))
    }
}

#[inline]
fn ends(lows: [u8; COLUMNS], highs: [u8; COLUMNS]) -> [u8; 2 * COLUMNS] {
    let (lows, highs) = (u64::from_le_bytes(lows), u64::from_le_bytes(highs));
    (u128::from(lows) | u128::from(!highs) << 64).to_le_bytes()
}

/// The rows of a matrix's conjunctions.
#[derive(Debug)]
pub(crate) struct Inner {
    /// The local numbers of its columns; 0 in columns that are not used.
    pub(crate) columns: [u16; COLUMNS],
    pub(crate) rows: Vec<Row>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute_test::{ABSENT, Interning, Kind, Probe, Test, test_of};
    use crate::constraint::{Constraint, Value};
    use crate::number::Number;
    use crate::slots::{Cuts, Slots};
    use crate::text_pool::Pool;
    use crate::value_set::{Bound, ValueSet};

    const TEXTS: [&str; 6] = ["", "a", "ab", "abcd-1", "abcd-2", "z"];

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }

        // Integers, floats between them, and integers that no float equals.
        /// Integers, floats between them, and integers that no float equals.
        fn number(&mut self) -> Number {
            match self.below(8) {
                0 => Number::Int((1 << 53) + self.below(6) as i64),
                1 | 2 => Number::from_float(self.below(40) as f64 / 2.0).expect("a number"),
                _ => Number::Int(self.below(20) as i64),
            }
        }

        fn bound(&mut self) -> Option<Bound<Number>> {
            (self.below(5) > 0).then(|| Bound { at: self.number(), open: self.below(2) > 0 })
        }

        fn constraint(&mut self) -> Constraint {
            match self.below(12) {
                0 => Constraint::present(),
                1 => Constraint { absent: true, ..Constraint::default() },
                2 => Constraint { bools: [self.below(2) > 0, true], ..Constraint::default() },
                3..6 => {
                    let text = TEXTS[self.below(TEXTS.len() as u64 - 1) as usize];
                    Constraint { texts: Some(ValueSet::of_points(vec![text.into()])), ..Constraint::default() }
                }
                6 => Constraint { numbers: Some(ValueSet::of_points(vec![self.number()])), ..Constraint::default() },
                _ => {
                    let set = ValueSet { low: self.bound(), high: self.bound(), ..ValueSet::default() };
                    Constraint { numbers: Some(set), ..Constraint::default() }
                }
            }
        }

        fn value(&mut self) -> Value<'static> {
            match self.below(12) {
                0 => Value::Absent,
                1 => Value::Other,
                2 => Value::Bool(self.below(2) > 0),
                3..6 => Value::Text(TEXTS[self.below(TEXTS.len() as u64) as usize]),
                _ => Value::Number(self.number()),
            }
        }
    }

    /// Cuts at all bounds of these tests, or at a few.
    fn cuts(all: &[Test], most: usize) -> Cuts {
        let (mut texts, mut numbers, mut named) = (Vec::new(), Vec::new(), Vec::new());
        for test in all {
            match test.kind {
                Kind::Text => {
                    texts.extend([test.low, test.low + 1]);
                    named.push((test.low, test.high as u32));
                }
                Kind::Interval | Kind::Number => numbers.extend([test.low, test.high.saturating_add(1)]),
                _ => {}
            }
        }
        let mut cuts = Cuts::new(0, texts, numbers, most);
        cuts.name_texts(&named);
        cuts
    }

    #[test]
    fn certain_verdicts_agree_with_the_tests() {
        let (mut random, mut seen) = (Random(1), [0_u32; 3]);
        let unchanged = Changes::none(1);
        for round in 0..300 {
            let (mut pool, mut rich) = (Pool::default(), Vec::new());
            let constraints: Vec<Constraint> = (0..=random.below(12)).map(|_| random.constraint()).collect();
            let tests: Vec<Test> =
                constraints.iter().map(|each| test_of(0, each, &mut rich, &mut Interning(&mut pool))).collect();
            let cuts = cuts(&tests, [16, 58, 230][round % 3]);
            for (constraint, test) in constraints.iter().zip(&tests) {
                let mut hulls = [Some(Hull::OPEN); COLUMNS];
                hulls[0] = cuts.inner_of_test(test);
                let row = Row::new(hulls, true, Holders::One(7), 0);
                for _ in 0..40 {
                    let value = random.value();
                    let probe = if value == Value::Absent { ABSENT } else { Probe::new(&value, 0, &pool) };
                    let mut slots = Slots::default();
                    slots.make_room(2);
                    slots.put(1, cuts.place(&probe));
                    let Some(points) = slots.points(&[1, 0, 0, 0, 0, 0, 0, 0]) else { continue };
                    let accepted = constraint.accepts(&value);
                    match row.verdict(&points, &unchanged) {
                        Verdict::Certain(id) => {
                            assert!(accepted && id == 7, "{constraint:?} {value:?}");
                            seen[0] += 1;
                        }
                        Verdict::Out => {
                            assert!(!accepted, "{constraint:?} {value:?}");
                            seen[1] += 1;
                        }
                        Verdict::Open => seen[2] += 1,
                    }
                }
            }
        }
        assert!(seen.iter().all(|&count| count > 1000), "certain, out and open: {seen:?}");
    }

    #[test]
    fn no_verdict_is_certain_after_a_change_or_for_partial_hulls() {
        let points = Points::new([3; COLUMNS]);
        let hulls = [Some(Hull { low: 3, high: 5 }); COLUMNS];
        let changes = Changes::none(10);
        let row = Row::new(hulls, true, Holders::One(7), 4);
        assert_eq!(row.verdict(&points, &changes), Verdict::Certain(7));
        changes.mark(4);
        assert_eq!(row.verdict(&points, &changes), Verdict::Open);
        let unchanged = Changes::none(10);
        assert_eq!(row.verdict(&points, &Changes::default()), Verdict::Open, "a class that nothing is known of");
        for (hulls, whole, holders) in [
            (hulls, false, Holders::One(7)),
            (hulls, true, Holders::Shared(2)),
            (hulls, true, Holders::Dead),
            ([None; COLUMNS], true, Holders::One(7)),
        ] {
            assert_eq!(Row::new(hulls, whole, holders, 4).verdict(&points, &unchanged), Verdict::Open);
        }
    }

    #[test]
    fn one_slot_outside_is_undecided_and_two_exclude() {
        let mut hulls = [Some(Hull::OPEN); COLUMNS];
        for column in 0..COLUMNS {
            hulls[column] = Some(Hull { low: 10, high: 20 });
            let row = Row::new(hulls, true, Holders::One(1), 0);
            let verdict = |at| {
                let mut points = [15; COLUMNS];
                points[column] = at;
                row.verdict(&Points::new(points), &Changes::none(1))
            };
            for (at, expected) in [(8, Verdict::Out), (9, Verdict::Open), (10, Verdict::Certain(1))] {
                assert_eq!((verdict(at), verdict(30 - at)), (expected, expected), "column {column}");
            }
        }
    }
}
