//! Sets of comparable values of one kind: an interval with holes and shapes, or a finite set of points.
//!
//! The same logic as `plait_core.filters.value_sets`: both must agree on every result, including those that err on the
//! safe side. Numbers and texts are both treated as dense orders.

use std::cmp::Ordering;

use crate::number::Number;
use crate::shape::{Operator, Shape};

/// A kind of value that sets are made of.
pub trait Point: Ord + Clone {
    /// The borrowed form of a value.
    type View: ?Sized;

    /// Compares this point with a value.
    fn order(&self, value: &Self::View) -> Ordering;
    /// This point as a value.
    fn view(&self) -> &Self::View;
    /// The value as text, if its kind is text.
    fn text(value: &Self::View) -> Option<&str>;
    /// The set of exactly the texts that start with `prefix`, if this kind is text.
    fn prefix_set(prefix: &str) -> Option<ValueSet<Self>>;
}

impl Point for Number {
    type View = Number;

    fn order(&self, value: &Number) -> Ordering {
        self.cmp(value)
    }

    fn view(&self) -> &Number {
        self
    }

    fn text(_: &Number) -> Option<&str> {
        None
    }

    fn prefix_set(_: &str) -> Option<ValueSet<Self>> {
        None
    }
}

impl Point for Box<str> {
    type View = str;

    fn order(&self, value: &str) -> Ordering {
        (**self).cmp(value)
    }

    fn view(&self) -> &str {
        self
    }

    fn text(value: &str) -> Option<&str> {
        Some(value)
    }

    fn prefix_set(prefix: &str) -> Option<ValueSet<Self>> {
        let high = after_prefix(prefix).map(|text| Bound { at: text.into(), open: true });
        Some(ValueSet { low: Some(Bound { at: prefix.into(), open: false }), high, ..ValueSet::default() })
    }
}

/// One end of an interval; an open end excludes its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bound<T> {
    /// The value at the end.
    pub at: T,
    /// Whether it is excluded.
    pub open: bool,
}

/// Values between the bounds (None is no bound), without holes, of all shapes. With `points`, exactly those.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueSet<T> {
    /// The low end.
    pub low: Option<Bound<T>>,
    /// The high end.
    pub high: Option<Bound<T>>,
    /// The only values, sorted, each once; bounds, holes and shapes are then unused.
    pub points: Option<Vec<T>>,
    /// Excluded values, sorted, each once.
    pub holes: Vec<T>,
    /// Required shapes, sorted, each once.
    pub shapes: Vec<Shape>,
}

impl<T> Default for ValueSet<T> {
    fn default() -> Self {
        Self { low: None, high: None, points: None, holes: Vec::new(), shapes: Vec::new() }
    }
}

impl<T: Point> ValueSet<T> {
    /// The set of these points.
    #[must_use]
    pub fn of_points(mut points: Vec<T>) -> Self {
        sort(&mut points);
        Self { points: Some(points), ..Self::default() }
    }

    /// Sorts the points, holes and shapes, as every other function expects them.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.points.iter_mut().for_each(sort);
        sort(&mut self.holes);
        sort(&mut self.shapes);
        self
    }

    /// Whether a value of this set's kind lies in it.
    #[must_use]
    pub fn accepts(&self, value: &T::View) -> bool {
        if let Some(points) = &self.points {
            return contains(points, value);
        }
        let low = self.low.as_ref().is_none_or(|low| above(low, value));
        let high = self.high.as_ref().is_none_or(|high| below(high, value));
        low && high && !contains(&self.holes, value) && self.has_shapes(value)
    }

    fn has_shapes(&self, value: &T::View) -> bool {
        self.shapes.iter().all(|shape| T::text(value).is_some_and(|text| shape.fits(text)))
    }

    /// Whether some value may lie in both sets. True if that cannot be decided cheaply.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        if let Some(points) = &self.points {
            return points.iter().any(|point| other.accepts(point.view()));
        }
        if let Some(points) = &other.points {
            return points.iter().any(|point| self.accepts(point.view()));
        }
        let low = higher(self.low.as_ref(), other.low.as_ref());
        let high = lower(self.high.as_ref(), other.high.as_ref());
        let shapes = || self.shapes.iter().chain(&other.shapes);
        if let (Some((low, low_open)), Some((high, high_open))) = (low, high) {
            match low.cmp(high) {
                Ordering::Greater => return false,
                Ordering::Equal => {
                    let value = low.view();
                    let hole = contains(&self.holes, value) || contains(&other.holes, value);
                    return !low_open
                        && !high_open
                        && !hole
                        && shapes().all(|shape| T::text(value).is_some_and(|text| shape.fits(text)));
                }
                Ordering::Less => {}
            }
        }
        !contradict(shapes)
    }

    /// Whether this contains every value of `other`. False if that cannot be decided cheaply.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        if let Some(points) = &other.points {
            return points.iter().all(|point| self.accepts(point.view()));
        }
        if self.points.is_some() {
            return false;
        }
        let low = self.low.as_ref().is_none_or(|outer| bounded(outer, other.low.as_ref(), Ordering::Greater));
        let high = self.high.as_ref().is_none_or(|outer| bounded(outer, other.high.as_ref(), Ordering::Less));
        low && high
            && !self.holes.iter().any(|hole| other.accepts(hole.view()))
            && self.shapes.iter().all(|shape| other.implies(shape))
    }

    /// Whether every text in this set certainly has `shape`.
    fn implies(&self, shape: &Shape) -> bool {
        if self.shapes.binary_search(shape).is_ok() {
            return true;
        }
        let text = &*shape.text;
        if shape.negated {
            let apart = shape.operator == Operator::StartsWith
                && T::prefix_set(text).is_some_and(|prefix| !prefix.intersects(&self.interval()));
            return apart
                || self.shapes.iter().any(|known| {
                    known.negated && known.operator == shape.operator && inside(shape.operator, &known.text, text)
                });
        }
        let mut required = self.shapes.iter().filter(|known| !known.negated);
        match shape.operator {
            Operator::EndsWith => {
                required.any(|known| known.operator == Operator::EndsWith && known.text.ends_with(text))
            }
            Operator::Contains => {
                required.any(|known| {
                    matches!(known.operator, Operator::Contains | Operator::EndsWith) && known.text.contains(text)
                }) || self.common_prefix().contains(text)
            }
            _ => false,
        }
    }

    /// This set without holes and shapes.
    fn interval(&self) -> Self {
        Self { low: self.low.clone(), high: self.high.clone(), ..Self::default() }
    }

    /// A text that every text of the set starts with.
    fn common_prefix(&self) -> &str {
        let (Some(low), Some(high)) = (&self.low, &self.high) else { return "" };
        let (Some(low), Some(high)) = (T::text(low.at.view()), T::text(high.at.view())) else { return "" };
        let mut ends = low.char_indices().zip(high.chars());
        let same = ends.find(|((_, a), b)| a != b).map_or(low.len().min(high.len()), |((at, _), _)| at);
        let longer = low[same..].chars().next().map_or(low, |next| &low[..same + next.len_utf8()]);
        let certain = T::prefix_set(longer).is_some_and(|prefix| prefix.includes(&self.interval()));
        if certain { longer } else { &low[..same] }
    }
}

/// The least text above all that start with `prefix`; None if there is none.
fn after_prefix(prefix: &str) -> Option<String> {
    let stem = prefix.trim_end_matches(char::MAX);
    let last = stem.chars().next_back()?;
    let next = char::from_u32(last as u32 + 1).unwrap_or('\u{E000}'); // surrogates are not characters
    let mut after = stem[..stem.len() - last.len_utf8()].to_owned();
    after.push(next);
    Some(after)
}

fn sort<T: Ord>(items: &mut Vec<T>) {
    items.sort_unstable();
    items.dedup();
}

fn contains<T: Point>(sorted: &[T], value: &T::View) -> bool {
    sorted.binary_search_by(|point| point.order(value)).is_ok()
}

fn above<T: Point>(low: &Bound<T>, value: &T::View) -> bool {
    match low.at.order(value) {
        Ordering::Less => true,
        Ordering::Equal => !low.open,
        Ordering::Greater => false,
    }
}

fn below<T: Point>(high: &Bound<T>, value: &T::View) -> bool {
    match high.at.order(value) {
        Ordering::Greater => true,
        Ordering::Equal => !high.open,
        Ordering::Less => false,
    }
}

type End<'a, T> = Option<(&'a T, bool)>;

fn higher<'a, T: Ord>(a: Option<&'a Bound<T>>, b: Option<&'a Bound<T>>) -> End<'a, T> {
    stricter(a, b, Ordering::Greater)
}

fn lower<'a, T: Ord>(a: Option<&'a Bound<T>>, b: Option<&'a Bound<T>>) -> End<'a, T> {
    stricter(a, b, Ordering::Less)
}

fn stricter<'a, T: Ord>(a: Option<&'a Bound<T>>, b: Option<&'a Bound<T>>, wins: Ordering) -> End<'a, T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(match a.at.cmp(&b.at) {
            Ordering::Equal => (&a.at, a.open || b.open),
            order if order == wins => (&a.at, a.open),
            _ => (&b.at, b.open),
        }),
        (one, other) => one.or(other).map(|bound| (&bound.at, bound.open)),
    }
}

/// Whether the inner set's end lies inside the outer bound; `inward` is the order of a value inside relative to the
/// bound.
fn bounded<T: Ord>(outer: &Bound<T>, inner: Option<&Bound<T>>, inward: Ordering) -> bool {
    inner.is_some_and(|inner| match inner.at.cmp(&outer.at) {
        Ordering::Equal => inner.open || !outer.open,
        order => order == inward,
    })
}

/// Whether some shapes contradict: two suffixes of which neither ends the other, or a shape and its negation.
fn contradict<'a, I: Iterator<Item = &'a Shape>>(shapes: impl Fn() -> I) -> bool {
    let mut suffixes: Vec<&str> = shapes().filter_map(Shape::suffix).collect();
    suffixes.sort_unstable_by_key(|text| text.len());
    suffixes.windows(2).any(|pair| !pair[1].ends_with(pair[0]))
        || shapes().any(|one| shapes().any(|other| one.negates(other)))
}

/// Whether a text without `shorter` is certainly without `longer`.
fn inside(operator: Operator, shorter: &str, longer: &str) -> bool {
    match operator {
        Operator::StartsWith => longer.starts_with(shorter),
        Operator::EndsWith => longer.ends_with(shorter),
        Operator::Contains => longer.contains(shorter),
        Operator::Like => false,
    }
}
