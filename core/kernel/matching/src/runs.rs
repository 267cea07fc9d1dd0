//! Runs: clusters too small for a matrix. If the members constrain the same few attributes, their hulls are stored
//! attribute by attribute, a byte for each low end and one for each high end, so that an event is compared with sixteen
//! members at once. If the members differ, the narrowest hulls of each member are stored together.

use crate::class::Conjunction;
use crate::class_changes::Changes;
use crate::inner_hulls::{COLUMNS, Row, Verdict};
use crate::segment::Found;
use crate::slots::{Hull, Slots};

/// Hulls stored per member if members differ in their attributes.
const OWN: usize = 4;

/// Bytes of these hulls: local number, low end, high end.
const OWN_BYTES: usize = OWN * 4;

/// Replaces the number of columns: hulls are stored per member.
const MIXED: u8 = u8::MAX;

/// Columns must exclude this many tenths of what all hulls exclude.
const ENOUGH: u32 = 7;

/// Members that are compared at once.
const LANES: usize = 16;

/// The ends of a hull that excludes nothing.
const OPEN: Hull = Hull { low: 0, high: 255 };

/// The runs of a segment.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    members: Vec<Conjunction>,
    /// For each run: the number of its columns; their local numbers, two bytes each, least first; and column by column
    /// all low ends, then all high ends. Or [`MIXED`], and for each member local number and ends of its hulls.
    hulls: Vec<u8>,
    /// The inner hulls of members, for runs whose columns are all attributes of their members.
    rows: Vec<Row>,
}

/// Replaces the start of a run's rows: the run has none.
const WITHOUT: u32 = u32::MAX;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    from: u32,
    to: u32,
    hulls: u32,
    rows: u32,
}

/// The hulls of a column, and the slots that they are compared with.
type Column<'a> = (Hull, &'a [u8], &'a [u8]);

impl Runs {
    /// Adds a run of these conjunctions with these hulls, without that of `access`; `row` returns the inner hulls of a
    /// member in some columns.
    pub(crate) fn push<'a>(
        &mut self,
        members: impl ExactSizeIterator<Item = Conjunction>,
        hulls: impl Fn(usize) -> &'a [(u16, Hull)],
        row: impl Fn(usize, &[u16; COLUMNS]) -> Row,
        access: u16,
    ) -> Run {
        let count = members.len();
        let columns = columns(count, &hulls, access);
        let (from, at) = (self.members.len() as u32, self.hulls.len());
        self.members.extend(members);
        let hulls_from = u32::try_from(at).expect("less than 4 GiB of hulls");
        let mut run = Run { from, to: self.members.len() as u32, hulls: hulls_from, rows: WITHOUT };
        let Some((columns, whole)) = columns else {
            self.hulls.push(MIXED);
            (0..count).for_each(|at| self.push_own(hulls(at), access));
            return run;
        };
        self.hulls.push(columns.len() as u8);
        self.hulls.extend(columns.iter().flat_map(|local| local.to_le_bytes()));
        for &local in &columns {
            let of_member =
                |at: usize| hulls(at).iter().find(|(other, _)| *other == local).map_or(OPEN, |(_, hull)| *hull);
            self.hulls.extend((0..count).map(|at| of_member(at).low));
            self.hulls.extend((0..count).map(|at| of_member(at).high));
        }
        if whole {
            run.rows = self.rows.len() as u32;
            let columns = std::array::from_fn(|at| columns.get(at).copied().unwrap_or(0));
            self.rows.extend((0..count).map(|at| row(at, &columns)));
        }
        run
    }

    fn push_own(&mut self, hulls: &[(u16, Hull)], access: u16) {
        let mut narrow: Vec<(u16, Hull)> = hulls.iter().copied().filter(|(local, _)| *local != access).collect();
        narrow.sort_by_key(|(_, hull)| hull.high - hull.low);
        narrow.resize(OWN, (0, OPEN));
        for (local, Hull { low, high }) in narrow {
            self.hulls.extend_from_slice(&local.to_le_bytes());
            self.hulls.extend_from_slice(&[low, high]);
        }
    }

    /// Returns reserved memory.
    pub(crate) fn shrink(&mut self) {
        self.members.shrink_to_fit();
        self.hulls.shrink_to_fit();
        self.rows.shrink_to_fit();
    }

    /// The members of a run.
    pub(crate) fn members_mut(&mut self, run: Run) -> &mut [Conjunction] {
        &mut self.members[run.from as usize..run.to as usize]
    }

    /// Finds each member that may match when attributes are in these slots.
    #[inline]
    pub(crate) fn scan(&self, run: Run, slots: &Slots, changes: &Changes, found: &mut Found) {
        let rows = if run.rows == WITHOUT { &[] } else { &self.rows[run.rows as usize..] };
        let members = &self.members[run.from as usize..run.to as usize];
        let mut points = None;
        self.find_members(run, &slots.hulls, |at| {
            let mut points = || *points.get_or_insert_with(|| slots.points(&self.columns(run)));
            let known = rows.get(at).and_then(|row| Some((row, points()?)));
            match known.map_or(Verdict::Open, |(row, points)| row.verdict(&points, changes)) {
                Verdict::Certain(id) => found.certain.push(id),
                Verdict::Open => found.maybe.push(members[at]),
                Verdict::Out => {}
            }
        });
    }

    /// The columns of a run that has rows.
    fn columns(&self, run: Run) -> [u16; COLUMNS] {
        let hulls = &self.hulls[run.hulls as usize..];
        let mut columns = [0; COLUMNS];
        let (locals, _) = hulls[1..].as_chunks::<2>();
        for (column, local) in columns.iter_mut().zip(&locals[..usize::from(hulls[0])]) {
            *column = u16::from_le_bytes(*local);
        }
        columns
    }

    /// Calls `passed` with the position of each member whose hulls contain these slots.
    #[inline]
    fn find_members(&self, run: Run, slots: &[Hull], mut passed: impl FnMut(usize)) {
        let members = &self.members[run.from as usize..run.to as usize];
        let hulls = &self.hulls[run.hulls as usize..];
        if hulls[0] == MIXED {
            let own = hulls[1..].chunks_exact(OWN_BYTES).take(members.len()).enumerate();
            own.filter(|(_, own)| own_hulls_contain(own, slots)).for_each(|(at, _)| passed(at));
            return;
        }
        let (locals, hulls) = hulls[1..].split_at(2 * usize::from(hulls[0]));
        let columns = locals.chunks_exact(2).zip(hulls.chunks_exact(2 * members.len())).map(|(local, ends)| {
            let (lows, highs) = ends.split_at(members.len());
            (slots[usize::from(u16::from_le_bytes([local[0], local[1]]))], lows, highs)
        });
        if members.len() < LANES {
            let fits = |at: usize| columns.clone().all(|(slot, lows, highs)| fits(slot, lows[at], highs[at]));
            (0..members.len()).filter(|&at| fits(at)).for_each(passed);
            return;
        }
        for at in (0..members.len()).step_by(LANES) {
            // The last step moves back to have full width, and skips the members that were compared before.
            let start = at.min(members.len() - LANES);
            let mut fit = members_containing(start, columns.clone()) >> (8 * (at - start)) << (8 * (at - start));
            while fit != 0 {
                passed(start + fit.trailing_zeros() as usize / 8);
                fit &= fit - 1;
            }
        }
    }
}

#[inline]
fn fits(slot: Hull, low: u8, high: u8) -> bool {
    Hull { low, high }.contains(slot)
}

#[inline]
fn own_hulls_contain(own: &[u8], slots: &[Hull]) -> bool {
    let (hulls, _) = own.as_chunks::<4>();
    hulls.iter().all(|&[local, more, low, high]| fits(slots[usize::from(u16::from_le_bytes([local, more]))], low, high))
}

/// Returns ones in the bytes of the members from `start` on whose hulls contain all slots.
#[inline]
fn members_containing<'a>(start: usize, columns: impl Iterator<Item = Column<'a>>) -> u128 {
    let mut failed = [0_u8; LANES];
    for (slot, lows, highs) in columns {
        let (lows, highs) = (&lows[start..start + LANES], &highs[start..start + LANES]);
        for ((failed, low), high) in failed.iter_mut().zip(lows).zip(highs) {
            *failed |= u8::from(slot.low < *low) | u8::from(*high < slot.high);
        }
    }
    !u128::from_le_bytes(failed) & (u128::MAX / 255)
}

/// Returns the attributes that exclude most, weighted by members and narrowness, and whether there are no others; None
/// if they are too many.
fn columns<'a>(count: usize, hulls: &impl Fn(usize) -> &'a [(u16, Hull)], access: u16) -> Option<(Vec<u16>, bool)> {
    let mut narrow: Vec<(u16, u32)> = (0..count)
        .flat_map(hulls)
        .filter(|(local, _)| *local != access)
        .map(|(local, hull)| (*local, 64_u32.saturating_sub(u32::from(hull.high - hull.low))))
        .collect();
    narrow.sort_unstable();
    narrow.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        sum.1 += if same { next.1 } else { 0 };
        same
    });
    narrow.sort_unstable_by_key(|&(local, sum)| (std::cmp::Reverse(sum), local));
    let all: u32 = narrow.iter().map(|(_, sum)| sum).sum();
    let whole = narrow.len() <= COLUMNS;
    narrow.truncate(COLUMNS);
    let kept: u32 = narrow.iter().map(|(_, sum)| sum).sum();
    (kept * 10 >= all * ENOUGH).then(|| (narrow.into_iter().map(|(local, _)| local).collect(), whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Holders;

    #[test]
    fn runs_of_any_size() {
        runs_over(COLUMNS as u16);
    }

    #[test]
    fn runs_whose_members_constrain_different_attributes() {
        runs_over(60);
    }

    fn runs_over(locals: u16) {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for count in (1..70).chain([300]) {
            let hulls: Vec<Vec<(u16, Hull)>> = (0..count)
                .map(|_| {
                    let first = 1 + draw(u64::from(locals) / 4) as u16;
                    let mut hull = || {
                        let (a, b) = (draw(20) as u8, draw(20) as u8);
                        Hull { low: a.min(b), high: a.max(b) }
                    };
                    (first..=locals).step_by(usize::from(locals) / 4).map(|local| (local, hull())).collect()
                })
                .collect();
            let never = Row::new([None; COLUMNS], false, Holders::Dead, 0);
            let mut runs = Runs::default();
            runs.push(std::iter::once(Conjunction { class: 9, start: 9 }), |_| &[], |_, _| never, 0);
            let members = (0..count).map(|class| Conjunction { class, start: 0 });
            let run = runs.push(members, |at| &hulls[at], |_, _| never, 1);
            for _ in 0..50 {
                let mut slots = Slots::default();
                slots.clear(Hull::ANY, usize::from(locals) + 1);
                for slot in &mut slots.hulls[1..usize::from(locals / 2)] {
                    let at = draw(20) as u8;
                    *slot = Hull { low: at, high: at };
                }
                let mut found = Found::default();
                runs.scan(run, &slots, &Changes::default(), &mut found);
                let fits = |hulls: &[(u16, Hull)]| {
                    hulls.iter().all(|(local, hull)| *local == 1 || hull.contains(slots.hulls[usize::from(*local)]))
                };
                let expected: Vec<u32> = (0..count).filter(|&at| fits(&hulls[at as usize])).collect();
                assert_eq!(found.maybe.iter().map(|member| member.class).collect::<Vec<_>>(), expected);
            }
        }
    }
}
