//! The constraint of a conjunction on one attribute: the set of satisfying states, kept as a set per kind of value.

use crate::number::Number;
use crate::value_set::ValueSet;

/// The value of an attribute, as filters see it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Missing, or null.
    Absent,
    /// A boolean, which is not a number.
    Bool(bool),
    /// An int or a float that is not NaN.
    Number(Number),
    /// A text.
    Text(&'a str),
    /// A value that no filter compares: NaN, a list.
    Other,
}

/// A set of states of one attribute. A kind whose part is None (or false) is excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Constraint {
    /// The numbers that satisfy.
    pub numbers: Option<ValueSet<Number>>,
    /// The texts that satisfy.
    pub texts: Option<ValueSet<Box<str>>>,
    /// Whether `false` and whether `true` satisfies.
    pub bools: [bool; 2],
    /// Whether values that no filter compares satisfy.
    pub others: bool,
    /// Whether absence satisfies.
    pub absent: bool,
}

impl Constraint {
    /// The constraint that every value satisfies, but not absence.
    #[must_use]
    pub fn present() -> Self {
        Self {
            numbers: Some(ValueSet::default()),
            texts: Some(ValueSet::default()),
            bools: [true, true],
            others: true,
            absent: false,
        }
    }

    /// Whether an attribute with this value satisfies.
    #[must_use]
    pub fn accepts(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Absent => self.absent,
            Value::Bool(value) => self.bools[usize::from(*value)],
            Value::Number(number) => self.numbers.as_ref().is_some_and(|set| set.accepts(number)),
            Value::Text(text) => self.texts.as_ref().is_some_and(|set| set.accepts(text)),
            Value::Other => self.others,
        }
    }

    /// Whether some state may satisfy both. True if that cannot be decided cheaply.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let bools = self.bools.iter().zip(other.bools).any(|(&a, b)| a && b);
        let numbers = || self.numbers.as_ref().zip(other.numbers.as_ref()).is_some_and(|(a, b)| a.intersects(b));
        let texts = || self.texts.as_ref().zip(other.texts.as_ref()).is_some_and(|(a, b)| a.intersects(b));
        bools || (self.others && other.others) || (self.absent && other.absent) || numbers() || texts()
    }

    /// Whether this contains every state of `other`. False if that cannot be decided cheaply.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let states = (self.absent || !other.absent)
            && (self.others || !other.others)
            && self.bools.iter().zip(other.bools).all(|(&ours, theirs)| ours || !theirs);
        states
            && within(self.numbers.as_ref(), other.numbers.as_ref())
            && within(self.texts.as_ref(), other.texts.as_ref())
    }
}

fn within<T: crate::value_set::Point>(outer: Option<&ValueSet<T>>, inner: Option<&ValueSet<T>>) -> bool {
    inner.is_none_or(|inner| outer.is_some_and(|outer| outer.includes(inner)))
}
