//! Relations of a queried filter to the filters in the index: covering and intersection, as
//! `plait_core.filters.covering` decides them. Where they cannot decide, covering answers no and intersection answers
//! yes.

use crate::attribute_test::{Kind, LookingUp, NO_HIGH, NO_LOW, OPEN_HIGH, OPEN_LOW, Rich, Test, test_of};
use crate::class::Class;
use crate::constraint::Constraint;
use crate::segment::Access;
use crate::slots::{Hull, Slotter};
use crate::text_pool::{NONE, Pool};

/// A filter in normal form: its alternatives, each with a constraint on some attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Form(pub Vec<Vec<(Box<str>, Constraint)>>);

/// A constraint of a queried filter.
struct Queried {
    /// [`NONE`] if no filter in the index constrains the attribute.
    attr: u32,
    test: Test,
    constraint: Constraint,
}

/// A queried filter.
pub(crate) struct QueriedFilter {
    conjunctions: Vec<Vec<Queried>>,
    rich: Vec<Rich>,
}

impl QueriedFilter {
    pub(crate) fn new(form: &Form, names: &Pool, texts: &Pool) -> Self {
        let mut rich = Vec::new();
        let mut queried = |(name, constraint): &(Box<str>, Constraint)| {
            let attr = names.find(name);
            let test = test_of(attr, constraint, &mut rich, &mut LookingUp(texts));
            Queried { attr, test, constraint: constraint.clone() }
        };
        let conjunctions = form.0.iter().map(|conjunction| conjunction.iter().map(&mut queried).collect()).collect();
        Self { conjunctions, rich }
    }

    /// Number of its alternatives. A filter without any is never satisfied.
    pub(crate) fn alternatives(&self) -> usize {
        self.conjunctions.len()
    }

    /// Calls `each` with the hull of each constraint of an alternative on an attribute with cuts, by local number.
    pub(crate) fn ends(&self, alternative: usize, slotter: &Slotter, mut each: impl FnMut(usize, Hull)) {
        for queried in &self.conjunctions[alternative] {
            let local = usize::from(slotter.local(queried.attr));
            if local != 0 {
                each(local, slotter.cuts[local].of_test(&queried.test, &self.rich));
            }
        }
    }

    /// Whether conjunctions behind an access may intersect an alternative.
    pub(crate) fn leads_to(&self, alternative: usize, slotter: &Slotter, access: Access) -> bool {
        let attr = slotter.cuts[usize::from(access.local())].attr;
        let Some(Queried { test, .. }) = self.conjunctions[alternative].iter().find(|queried| queried.attr == attr)
        else {
            return true;
        };
        let rich = || &self.rich[test.low as usize];
        match (access, test.kind) {
            (Access::Any(_), _) | (_, Kind::Always | Kind::Present) => true,
            (Access::Number(_, key), Kind::Interval | Kind::Number) => test.low <= key && key <= test.high,
            (Access::Number(_, key), Kind::Rich) => rich().numbers.is_some_and(|(low, high)| low <= key && key <= high),
            (Access::Text(_, id), Kind::Text) => test.high == u64::from(id),
            (Access::Text(_, id), Kind::Rich) => {
                let Rich { texts, points, .. } = rich();
                texts.is_some() && (points.is_empty() || points.iter().any(|&(_, point)| point == id))
            }
            _ => false,
        }
    }

    /// Appends the accesses that may lead to filters covering the first alternative.
    pub(crate) fn accesses(&self, slotter: &Slotter, accesses: &mut Vec<Access>) {
        for Queried { attr, test, .. } in &self.conjunctions[0] {
            let local = slotter.local(*attr);
            if local == 0 {
                continue;
            }
            accesses.push(Access::Any(local));
            match test.kind {
                Kind::Number => accesses.push(Access::Number(local, test.low)),
                Kind::Text => accesses.push(Access::Text(local, test.high as u32)),
                Kind::Rich => {
                    let Rich { constraint, points, .. } = &self.rich[test.low as usize];
                    let numbers = constraint.numbers.as_ref().and_then(|set| set.points.as_ref());
                    let number = numbers.and_then(|numbers| numbers.first()?.key());
                    accesses.extend(number.map(|key| Access::Number(local, key)));
                    let text = points.first().filter(|(_, id)| *id != NONE);
                    accesses.extend(text.map(|&(_, id)| Access::Text(local, id)));
                }
                _ => {}
            }
        }
    }

    /// Whether the filters of a class cover this one.
    pub(crate) fn is_covered_by(&self, class: &Class, texts: &Pool) -> bool {
        let covers = |tests: &[Test], narrow: &[Queried]| {
            satisfiable(tests).all(|test| {
                let inner = narrow.iter().find(|queried| queried.attr == test.attr);
                inner.is_some_and(|queried| Self::includes(test, class, queried, texts))
            })
        };
        self.conjunctions.iter().all(|narrow| class.starts().any(|start| covers(class.conjunction(start), narrow)))
    }

    /// Whether this filter covers those of a class.
    pub(crate) fn covers(&self, class: &Class, texts: &Pool) -> bool {
        let covers = |wide: &[Queried], tests: &[Test]| {
            wide.iter().all(|queried| {
                let inner = satisfiable(tests).find(|test| test.attr == queried.attr);
                inner.is_some_and(|test| Self::is_included(queried, test, class, texts))
            })
        };
        class.starts().all(|start| self.conjunctions.iter().any(|wide| covers(wide, class.conjunction(start))))
    }

    /// Whether this filter intersects those of a class.
    pub(crate) fn intersects(&self, class: &Class, texts: &Pool) -> bool {
        let meet = |queried: &[Queried], tests: &[Test]| {
            queried.iter().all(|queried| {
                let other = satisfiable(tests).find(|test| test.attr == queried.attr);
                other.is_none_or(|test| Self::test_intersects(queried, test, class, texts))
            })
        };
        self.conjunctions.iter().any(|queried| class.starts().any(|start| meet(queried, class.conjunction(start))))
    }

    fn includes(outer: &Test, class: &Class, inner: &Queried, texts: &Pool) -> bool {
        includes_simple(outer, &inner.test)
            .unwrap_or_else(|| outer.constraint(class.rich(), texts).includes(&inner.constraint))
    }

    fn is_included(outer: &Queried, inner: &Test, class: &Class, texts: &Pool) -> bool {
        includes_simple(&outer.test, inner)
            .unwrap_or_else(|| outer.constraint.includes(&inner.constraint(class.rich(), texts)))
    }

    fn test_intersects(queried: &Queried, test: &Test, class: &Class, texts: &Pool) -> bool {
        intersects_simple(&queried.test, test)
            .unwrap_or_else(|| queried.constraint.intersects(&test.constraint(class.rich(), texts)))
    }
}

fn satisfiable(tests: &[Test]) -> impl Iterator<Item = &Test> {
    tests.iter().filter(|test| test.kind != Kind::Always)
}

/// Whether one test includes another, if both are simple enough to decide without their constraints.
fn includes_simple(outer: &Test, inner: &Test) -> Option<bool> {
    Some(match (outer.kind, inner.kind) {
        (Kind::Interval | Kind::Number, Kind::Number) => outer.low <= inner.low && inner.low <= outer.high,
        (Kind::Interval, Kind::Interval) => {
            let low = outer.flags & NO_LOW != 0 || (inner.flags & NO_LOW == 0 && low_end(inner) >= low_end(outer));
            let high = outer.flags & NO_HIGH != 0 || (inner.flags & NO_HIGH == 0 && high_end(inner) <= high_end(outer));
            low && high
        }
        // A text that is not in the index has no id, and equals none in it.
        (Kind::Text, Kind::Text) => outer.high == inner.high,
        (Kind::Present, Kind::Interval | Kind::Number | Kind::Text | Kind::Bool | Kind::Present) => true,
        (Kind::Number, Kind::Interval)
        | (Kind::Interval | Kind::Number, Kind::Text | Kind::Bool)
        | (Kind::Text, Kind::Interval | Kind::Number | Kind::Bool) => false,
        _ => return None,
    })
}

/// Whether two tests intersect, if both are simple enough to decide without their constraints.
fn intersects_simple(one: &Test, other: &Test) -> Option<bool> {
    Some(match (one.kind, other.kind) {
        (Kind::Number, Kind::Interval | Kind::Number) | (Kind::Interval, Kind::Number) => {
            one.low.max(other.low) <= one.high.min(other.high)
        }
        (Kind::Interval, Kind::Interval) => {
            let (low, high) = (low_end(one).max(low_end(other)), high_end(one).min(high_end(other)));
            low.0 < high.0 || (low.0 == high.0 && low.1 == 0 && high.1 == 1)
        }
        (Kind::Text, Kind::Text) => one.high == other.high,
        (Kind::Interval | Kind::Number, Kind::Text) | (Kind::Text, Kind::Interval | Kind::Number) => false,
        _ => return None,
    })
}

/// The bound of an interval's low end, and 1 if it is open: greater is narrower.
fn low_end(test: &Test) -> (u64, u8) {
    let open = u8::from(test.flags & OPEN_LOW != 0);
    (test.low - u64::from(open), open)
}

/// The bound of an interval's high end, and 0 if it is open: less is narrower.
fn high_end(test: &Test) -> (u64, u8) {
    let open = u8::from(test.flags & OPEN_HIGH != 0);
    (test.high + u64::from(open), 1 - open)
}
