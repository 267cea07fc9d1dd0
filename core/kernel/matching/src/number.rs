//! Numbers as filters compare them: ints of any size and floats in one exact order.
//!
//! Every value has one representation, so equality is structural. An integer of 64 bits is an `Int`, even if it came as
//! a float; one beyond that equals a float is a `Float`; all others are `Big`.
//!
//! The index works on *keys*: the bits of a float, arranged so that they sort as unsigned integers. A number that no
//! float equals lies strictly between two neighbouring keys. Filters hold closed intervals of keys: exact for a number
//! with one key, and for one in between a superset, for which [`Number::cmp`] decides.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// A number that is not NaN.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    /// An integer of 64 bits.
    Int(i64),
    /// A float that is not an integer of 64 bits: fractions, large floats, infinities.
    Float(f64),
    /// An integer that neither of the others can hold.
    Big(Box<Big>),
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Int(value) => value.hash(state),
            // No float is zero, which has two representations.
            Self::Float(value) => value.to_bits().hash(state),
            Self::Big(value) => value.hash(state),
        }
    }
}

/// An integer beyond 64 bits: sign and magnitude, least limb first, no leading zero limb.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Big {
    negative: bool,
    limbs: Vec<u64>,
}

/// The least key of any number: that of negative infinity.
pub const KEY_MIN: u64 = !f64::NEG_INFINITY.to_bits();
/// The greatest key of any number: that of infinity.
pub const KEY_MAX: u64 = f64::INFINITY.to_bits() | SIGN;

const SIGN: u64 = 1 << 63;

/// The key of a float that is not NaN; -0.0 has the key of 0.0.
#[must_use]
pub fn key_of_float(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// The float that has this key.
#[must_use]
pub fn float_of_key(key: u64) -> f64 {
    f64::from_bits(if key & SIGN == 0 { !key } else { key & !SIGN })
}

impl Number {
    /// Converts a float; None for NaN.
    #[must_use]
    pub fn from_float(value: f64) -> Option<Self> {
        if value.is_nan() {
            return None;
        }
        // 2^63 itself does not fit; every integral float below it does.
        let fits = value.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
        Some(if fits { Self::Int(value as i64) } else { Self::Float(value) })
    }

    /// Converts an unsigned integer.
    #[must_use]
    pub fn from_u64(value: u64) -> Self {
        i64::try_from(value).map_or_else(|_| Self::from_magnitude(false, vec![value]), Self::Int)
    }

    /// Decodes big-endian two's complement.
    #[must_use]
    pub fn from_signed_bytes(bytes: &[u8]) -> Self {
        let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
        let fill = if negative { 0xFF } else { 0 };
        let mut limbs: Vec<u64> = bytes
            .rchunks(8)
            .map(|chunk| {
                let mut limb = [fill; 8];
                limb[8 - chunk.len()..].copy_from_slice(chunk);
                u64::from_be_bytes(limb)
            })
            .collect();
        if negative {
            let mut carry = true;
            for limb in &mut limbs {
                let (negated, over) = (!*limb).overflowing_add(u64::from(carry));
                (*limb, carry) = (negated, over);
            }
            if carry {
                limbs.push(1);
            }
        }
        Self::from_magnitude(negative, limbs)
    }

    fn from_magnitude(negative: bool, mut limbs: Vec<u64>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        match (limbs.as_slice(), negative) {
            ([], _) => return Self::Int(0),
            (&[limb], false) if limb < SIGN => return Self::Int(limb as i64),
            (&[limb], true) if limb <= SIGN => return Self::Int((limb as i64).wrapping_neg()),
            _ => {}
        }
        let big = Big { negative, limbs };
        let (toward_zero, exact) = big.truncated();
        if exact { Self::Float(if negative { -toward_zero } else { toward_zero }) } else { Self::Big(Box::new(big)) }
    }

    /// The neighbouring keys around this number: the same key twice if a float equals it.
    #[must_use]
    #[inline]
    pub fn keys(&self) -> (u64, u64) {
        match self {
            &Self::Int(value) => {
                let near = value as f64;
                let key = key_of_float(near);
                if value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS {
                    return (key, key);
                }
                match (near as i128).cmp(&i128::from(value)) {
                    Ordering::Equal => (key, key),
                    Ordering::Less => (key, key + 1),
                    Ordering::Greater => (key - 1, key),
                }
            }
            &Self::Float(value) => (key_of_float(value), key_of_float(value)),
            Self::Big(big) => {
                let (toward_zero, _) = big.truncated();
                let key = key_of_float(if big.negative { -toward_zero } else { toward_zero });
                if big.negative { (key - 1, key) } else { (key, key + 1) }
            }
        }
    }

    /// The key of this number if a float equals it.
    #[must_use]
    pub fn key(&self) -> Option<u64> {
        let (low, high) = self.keys();
        (low == high).then_some(low)
    }
}

impl Big {
    /// The float next to the magnitude on the side of zero, and whether it equals it.
    fn truncated(&self) -> (f64, bool) {
        let top = self.limbs.len() - 1;
        let shift = self.limbs[top].leading_zeros();
        let below = if top == 0 { 0 } else { self.limbs[top - 1] };
        let lead = if shift == 0 { self.limbs[top] } else { self.limbs[top] << shift | below >> (64 - shift) };
        let exponent = top as u32 * 64 + 63 - shift;
        if exponent > 1023 {
            return (f64::MAX, false);
        }
        let kept_below = if shift == 0 { below } else { below << shift };
        let rest_is_zero = self.limbs[..top.saturating_sub(1)].iter().all(|&limb| limb == 0);
        let exact = lead.trailing_zeros() >= 11 && kept_below == 0 && rest_is_zero;
        let fraction = (lead >> 11) & ((1 << 52) - 1);
        (f64::from_bits(u64::from(exponent + 1023) << 52 | fraction), exact)
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        let magnitude = || {
            let lengths = self.limbs.len().cmp(&other.limbs.len());
            lengths.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
        };
        match (self.negative, other.negative) {
            (false, false) => magnitude(),
            (true, true) => magnitude().reverse(),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Big(a), Self::Big(b)) => a.cmp(b),
            (Self::Big(big), Self::Int(_)) => {
                if big.negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (Self::Int(_), Self::Big(_)) => other.cmp(self).reverse(),
            // One side is a float. Either both have one key, or the other lies strictly between two keys.
            _ => {
                let ((a_low, a_high), (b_low, b_high)) = (self.keys(), other.keys());
                a_low.cmp(&b_low).then(a_high.cmp(&b_high))
            }
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn float(value: f64) -> Number {
        Number::from_float(value).expect("not NaN")
    }

    fn two_to_the(exponent: usize, plus: i8) -> Number {
        let mut bytes = vec![0_u8; exponent / 8 + 2];
        let at = bytes.len() - 1 - exponent / 8;
        bytes[at] = 1 << (exponent % 8);
        match plus {
            0 => {}
            1 => *bytes.last_mut().expect("two bytes at least") |= 1,
            _ => {
                bytes[at] = (1 << (exponent % 8)) - 1;
                bytes[at + 1..].fill(0xFF);
            }
        }
        Number::from_signed_bytes(&bytes)
    }

    #[test]
    fn one_representation_for_each_value() {
        assert_eq!(float(3.0), Number::Int(3));
        assert_eq!(float(-0.0), Number::Int(0));
        assert_eq!(two_to_the(64, 0), float(18_446_744_073_709_551_616.0));
        assert_eq!(Number::from_u64(1 << 63), float(9_223_372_036_854_775_808.0));
        assert_eq!(Number::from_signed_bytes(&[0x80, 0, 0, 0, 0, 0, 0, 0]), Number::Int(i64::MIN));
        assert_eq!(Number::from_signed_bytes(&[0xFF; 12]), Number::Int(-1));
        assert!(matches!(two_to_the(64, 1), Number::Big(_)));
        assert!(Number::from_float(f64::NAN).is_none());
    }

    #[test]
    fn one_exact_order() {
        let ascending = [
            float(f64::NEG_INFINITY),
            Number::from_signed_bytes(&[0x80, 0, 0, 0, 0, 0, 0, 0, 1]),
            Number::Int(i64::MIN),
            Number::Int(-(1 << 53) - 1),
            Number::Int(-(1 << 53)),
            float(-0.5),
            Number::Int(0),
            float(f64::MIN_POSITIVE),
            Number::Int(1),
            Number::Int(1 << 53),
            Number::Int((1 << 53) + 1),
            Number::Int((1 << 53) + 2),
            two_to_the(63, -1),
            two_to_the(63, 0),
            two_to_the(63, 1),
            two_to_the(64, -1),
            two_to_the(64, 0),
            two_to_the(64, 1),
            two_to_the(200, -1),
            two_to_the(200, 0),
            two_to_the(200, 1),
            two_to_the(1024, -1),
            two_to_the(1030, 0),
            float(f64::INFINITY),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a:?} and {b:?}");
                let ((_, a_high), (b_low, _)) = (a.keys(), b.keys());
                assert!(i >= j || a_high <= b_low || a.keys() == b.keys(), "keys of {a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn keys_convert_to_floats_and_back() {
        for value in [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, 0.0, 0.1, 1e300, f64::INFINITY] {
            assert_eq!(float_of_key(key_of_float(value)), value);
            assert!((KEY_MIN..=KEY_MAX).contains(&key_of_float(value)));
        }
    }
}
