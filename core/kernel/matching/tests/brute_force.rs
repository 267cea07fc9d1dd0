//! Compares the index with brute force over random histories: the same results during all merges.

use std::collections::BTreeMap;

use plait_matching::constraint::{Constraint, Value};
use plait_matching::number::Number;
use plait_matching::shape::{Operator, Shape};
use plait_matching::value_set::{Bound, ValueSet};
use plait_matching::{Form, Index, Misuse};

/// A small generator with a seed: same seed, same run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f.g", "h", "i"];
const TEXTS: [&str; 14] =
    ["", "a", "ab", "abc", "abcd", "abcde", "abcdf", "b", "ba", "é", "\u{10FFFF}", "zz\u{10FFFF}", "IBM", "AAPL"];

fn number(random: &mut Random) -> Number {
    let around = (1_i64 << [53, 62, 20, 0][random.below(4)]) * [1, -1][random.below(2)];
    match random.below(8) {
        0 => Number::Int(around.saturating_add(random.below(5) as i64 - 2)),
        1 => Number::from_u64(u64::MAX - random.below(3) as u64),
        2 => {
            let mut bytes = [0; 26];
            bytes[1] = 1;
            bytes[25] = random.below(3) as u8;
            Number::from_signed_bytes(&bytes)
        }
        3 => Number::from_float(random.below(100) as f64 / 7.0 - 3.0).expect("not NaN"),
        4 => Number::from_float([f64::MAX, 2f64.powi(63), 2f64.powi(200), -0.0][random.below(4)]).expect("not NaN"),
        _ => Number::Int(random.below(12) as i64 - 2),
    }
}

fn shape(random: &mut Random) -> Shape {
    let operator = [Operator::StartsWith, Operator::EndsWith, Operator::Contains, Operator::Like][random.below(4)];
    let like = ["%a%b%", "a_c%", "%", "_", "%b_d"];
    let text = if operator == Operator::Like { random.pick(&like) } else { random.pick(&TEXTS) };
    Shape { operator, text: text.into(), negated: random.chance(50) }
}

fn value_set<T: Clone + Ord>(random: &mut Random, mut point: impl FnMut(&mut Random) -> T) -> ValueSet<T> {
    let mut value_set = ValueSet::default();
    match random.below(4) {
        0 => value_set.points = Some((0..=random.below(3)).map(|_| point(random)).collect()),
        1 => value_set.holes = (0..=random.below(2)).map(|_| point(random)).collect(),
        _ => {
            let (mut low, mut high) = (point(random), point(random));
            if low > high {
                std::mem::swap(&mut low, &mut high);
            }
            if low == high || random.chance(30) {
                let bound = Some(Bound { at: low, open: random.chance(50) });
                if random.chance(50) { value_set.low = bound } else { value_set.high = bound }
            } else {
                value_set.low = Some(Bound { at: low, open: random.chance(50) });
                value_set.high = Some(Bound { at: high, open: random.chance(50) });
            }
        }
    }
    value_set
}

fn constraint(random: &mut Random) -> Constraint {
    let mut made = Constraint::default();
    match random.below(10) {
        0..4 => made.numbers = Some(value_set(random, number).sorted()),
        4..6 => made.texts = Some(ValueSet::of_points(vec![random.pick(&TEXTS).into()])),
        6 => made.texts = Some(value_set(random, |random| random.pick(&TEXTS).into()).sorted()),
        7 => {
            let shapes = (0..=random.below(2)).map(|_| shape(random)).collect();
            made.texts = Some(ValueSet { shapes, ..ValueSet::default() }.sorted());
        }
        8 => made.bools = [[true, false], [false, true], [true, true]][random.below(3)],
        _ => match random.below(3) {
            0 => made = Constraint::present(),
            1 => made.absent = true,
            _ => {
                made.numbers = Some(value_set(random, number).sorted());
                made.texts = Some(value_set(random, |random| random.pick(&TEXTS).into()).sorted());
                made.bools = [random.chance(30), random.chance(30)];
                made.absent = random.chance(20);
                made.others = random.chance(20);
            }
        },
    }
    made
}

fn form(random: &mut Random) -> Form {
    let alternatives = [1, 1, 1, 1, 2, 3, 0][random.below(7)];
    let conjunction = |random: &mut Random| {
        let names: Vec<&str> = NAMES.into_iter().filter(|_| random.chance(25)).collect();
        names.into_iter().map(|name| (name.into(), constraint(random))).collect()
    };
    Form((0..alternatives).map(|_| conjunction(random)).collect())
}

fn value(random: &mut Random) -> Value<'static> {
    match random.below(8) {
        0 => Value::Absent,
        1 => Value::Bool(random.chance(50)),
        2 => Value::Other,
        3..5 => Value::Text(random.pick(&TEXTS)),
        _ => match random.below(20) {
            0 => Value::Number(Number::Float([f64::INFINITY, f64::NEG_INFINITY][random.below(2)])),
            _ => Value::Number(number(random)),
        },
    }
}

type Event = BTreeMap<&'static str, Value<'static>>;

fn event(random: &mut Random) -> Event {
    let names: Vec<&str> = NAMES.into_iter().filter(|_| random.chance(60)).collect();
    names.into_iter().map(|name| (name, value(random))).collect()
}

fn accepts(form: &Form, event: &Event) -> bool {
    let accepts =
        |(name, constraint): &(Box<str>, Constraint)| constraint.accepts(event.get(&**name).unwrap_or(&Value::Absent));
    form.0.iter().any(|conjunction| conjunction.iter().all(accepts))
}

type Conjunction = Vec<(Box<str>, Constraint)>;

fn find<'a>(conjunction: &'a Conjunction, name: &str) -> Option<&'a Constraint> {
    conjunction.iter().find(|(other, _)| **other == *name).map(|(_, constraint)| constraint)
}

fn covers(wide: &Form, narrow: &Form) -> bool {
    let covers = |wide: &Conjunction, narrow: &Conjunction| {
        wide.iter().all(|(name, outer)| find(narrow, name).is_some_and(|inner| outer.includes(inner)))
    };
    narrow.0.iter().all(|narrow| wide.0.iter().any(|wide| covers(wide, narrow)))
}

fn intersects(one: &Form, other: &Form) -> bool {
    let meet = |one: &Conjunction, other: &Conjunction| {
        one.iter().all(|(name, a)| find(other, name).is_none_or(|b| a.intersects(b)))
    };
    one.0.iter().any(|one| other.0.iter().any(|other| meet(one, other)))
}

struct Checked {
    index: Index,
    known: BTreeMap<u64, Form>,
}

impl Checked {
    fn matching(&mut self, event: &Event) {
        let numbered: Vec<(u32, Value<'_>)> =
            event.iter().filter_map(|(name, value)| Some((self.index.attribute(name)?, value.clone()))).collect();
        let mut found = Vec::new();
        self.index.matches(&numbered, &mut found);
        let expected = self.where_(|form| accepts(form, event));
        assert_eq!(found, expected, "event {event:?}");
    }

    fn relations(&mut self, queried: &Form) {
        let mut found = Vec::new();
        self.index.covering(queried, &mut found);
        assert_eq!(found, self.where_(|form| covers(form, queried)), "covering {queried:?}");
        found.clear();
        self.index.covered(queried, &mut found);
        assert_eq!(found, self.where_(|form| covers(queried, form)), "covered by {queried:?}");
        found.clear();
        self.index.intersecting(queried, &mut found);
        assert_eq!(found, self.where_(|form| intersects(form, queried)), "intersecting {queried:?}");
    }

    fn where_(&self, accepts: impl Fn(&Form) -> bool) -> Vec<u64> {
        self.known.iter().filter(|(_, form)| accepts(form)).map(|(&id, _)| id).collect()
    }
}

/// One history: additions and removals of varying balance, with matches and queries in between.
fn history(seed: u64, steps: usize, most: usize, check_every: usize) {
    let mut random = Random(seed);
    let mut checked = Checked { index: Index::new(), known: BTreeMap::new() };
    let mut growing = true;
    for step in 0..steps {
        let size = checked.known.len();
        growing = if growing { size < most } else { size < most / 3 };
        if random.chance(if growing { 80 } else { 20 }) || size == 0 {
            let id = random.below(4 * most) as u64;
            let form = match random.below(10) {
                0 if size > 0 => checked.known.values().nth(random.below(size)).expect("below size").clone(),
                _ => form(&mut random),
            };
            let taken = checked.known.contains_key(&id);
            assert_eq!(checked.index.add(id, &form), if taken { Err(Misuse::Taken) } else { Ok(()) });
            checked.known.entry(id).or_insert(form);
        } else {
            let id = *checked.known.keys().nth(random.below(size)).expect("below size");
            assert_eq!(checked.index.remove(id), Ok(()));
            assert_eq!(checked.index.remove(id), Err(Misuse::Unknown));
            checked.known.remove(&id);
        }
        assert_eq!(checked.index.len(), checked.known.len());
        if random.below(200) == 0 {
            checked.index.settle();
        }
        if step % check_every == 0 {
            let event = event(&mut random);
            checked.matching(&event);
            if random.chance(30) {
                let queried = match random.below(2) {
                    0 => form(&mut random),
                    _ => checked
                        .known
                        .values()
                        .nth(random.below(checked.known.len().max(1)))
                        .cloned()
                        .unwrap_or_default(),
                };
                checked.relations(&queried);
            }
        }
    }
}

fn rounds() -> u64 {
    if std::env::var_os("PLAIT_NIGHTLY").is_some() { 40 } else { 2 }
}

#[test]
fn small_histories() {
    for seed in 0..20 * rounds() {
        history(seed, 400, 40, 1);
    }
}

#[test]
fn histories_with_merges() {
    for seed in 0..rounds() {
        history(1000 + seed, 12_000, 4_000, 10);
    }
}

#[test]
fn histories_with_clusters() {
    for seed in 0..rounds() {
        history(2000 + seed, 40_000, 15_000, 50);
    }
}

#[test]
fn one_filter_of_very_many_alternatives() {
    let alternative = |at: i64| {
        let numbers = ValueSet::of_points(vec![Number::Int(at)]);
        vec![("a".into(), Constraint { numbers: Some(numbers), ..Constraint::default() })]
    };
    let mut checked = Checked { index: Index::new(), known: BTreeMap::new() };
    for (id, count) in [(1, 5_000), (2, 300), (3, 4_000)] {
        let form = Form((0..count).map(alternative).collect());
        checked.index.add(id, &form).expect("a new id");
        checked.known.insert(id, form);
    }
    for at in [0, 299, 300, 3_999, 4_999, 5_000] {
        checked.matching(&BTreeMap::from([("a", Value::Number(Number::Int(at)))]));
    }
    checked.index.settle();
    checked.matching(&BTreeMap::from([("a", Value::Number(Number::Int(4_500)))]));
    checked.index.remove(1).expect("a known id");
    checked.known.remove(&1);
    checked.matching(&BTreeMap::from([("a", Value::Number(Number::Int(100)))]));
}

#[test]
fn misuse() {
    let mut index = Index::new();
    assert_eq!(index.add(1 << 63, &Form::default()), Err(Misuse::OutOfRange));
    assert_eq!(index.add((1 << 63) - 1, &Form(vec![vec![]])), Ok(()));
    let mut found = Vec::new();
    index.matches(&[], &mut found);
    assert_eq!(found, [(1 << 63) - 1]);
    assert!(index.contains((1 << 63) - 1) && !index.is_empty());
}

#[test]
fn constraints_that_nothing_satisfies() {
    let mut checked = Checked { index: Index::new(), known: BTreeMap::new() };
    let never = || ("a".into(), Constraint::default());
    for id in 0..1_500 {
        let high = Some(Bound { at: Number::Int(id as i64), open: false });
        let below = Constraint { numbers: Some(ValueSet { high, ..ValueSet::default() }), ..Constraint::default() };
        let form = Form(vec![vec![never(), ("b".into(), below)]]);
        checked.index.add(id, &form).expect("a new id");
        checked.known.insert(id, form);
    }
    for _ in 0..2 {
        checked.matching(&BTreeMap::from([("a", Value::Number(Number::Int(1))), ("b", Value::Number(Number::Int(1)))]));
        checked.relations(&Form(vec![vec![never()]]));
        checked.relations(&checked.known[&700].clone());
        checked.index.settle();
    }
}
