//! Inner hulls: the slots of which a test accepts every value. An event whose values stand in the inner hulls of a
//! conjunction satisfies it for certain, and one with a value further off than the next slot does not. Whom it is for
//! stands beside them: 32 bytes, next to those of its neighbours, in place of a walk through a class somewhere in memory.

use crate::changes::Changes;
use crate::class::Holders;
use crate::slots::Hull;

/// Attributes that conjunctions of one matrix or run are certain by.
pub(crate) const COLUMNS: usize = 8;

/// In place of the number of a class: no event is certain to match, whatever the slots say.
const ASK: u32 = u32::MAX;

/// What is known of a conjunction without looking at its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It matches, and this id alone holds it.
    Certain(u64),
    /// Its tests decide.
    Open,
    /// It does not match.
    Out,
}

/// What is needed to tell that an event is for a conjunction's holder. Two of them are a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Row {
    /// Low ends, then the complements of high ends: so one subtraction tells how far outside each of both a point is.
    ends: [u8; 2 * COLUMNS],
    id: u64,
    number: u32,
}

impl Row {
    /// The row of a conjunction with these inner hulls, by column; None for what has none. `number` is its class's.
    pub(crate) fn new(hulls: [Option<Hull>; COLUMNS], whole: bool, holders: Holders, number: u32) -> Self {
        let (id, number) = match holders {
            Holders::One(id) if whole && hulls.iter().all(Option::is_some) => (id, number),
            _ => (0, ASK),
        };
        let hulls = hulls.map(|hull| hull.unwrap_or(Hull::OPEN));
        Self { ends: ends(hulls.map(|hull| hull.low), hulls.map(|hull| hull.high)), id, number }
    }

    /// What is known when values are at these points. A test accepts nothing further than one slot from its inner hull:
    /// there its bounds are.
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

/// Points of an event's values, as rows are held against them.
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
