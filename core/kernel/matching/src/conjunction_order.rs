//! The order of conjunctions in a matrix: grouped by their commonest attribute and its low end, cut into cells; within
//! a cell likewise by the next attribute. So a block contains conjunctions that are close in two or three attributes,
//! and an event excludes most blocks whole.

use crate::matrix::BLOCK;
use crate::slots::{Cuts, Hull, Slotter};

/// Attributes that conjunctions are ordered by, nested.
const DEPTH: usize = 3;
/// The weight of the narrowest hull; the widest have hardly more than 0.
const SCALE: u32 = 64;
/// Up to this many blocks are ordered by one attribute.
const ONE_LEVEL: usize = 128;
/// Blocks of a cell that is ordered by a further attribute.
const BLOCKS_LEFT: usize = 5;

/// Sorts conjunctions into their order in a matrix; `hulls` returns the hulls of each.
pub(crate) fn in_order<'a>(members: &[u32], hulls: impl Fn(u32) -> &'a [(u16, Hull)], slotter: &Slotter) -> Vec<u32> {
    let slots = slotter.cuts.iter().map(Cuts::slots).max().map_or(SCALE, |slots| SCALE.max(slots as u32));
    let (count, order) = (vec![(0, 0); slotter.len()], Vec::with_capacity(members.len()));
    let mut clustering = Clustering { hulls, count, slots, order };
    clustering.cluster(members.to_vec(), &mut Vec::new());
    clustering.order
}

struct Clustering<F> {
    hulls: F,
    /// Number of conjunctions that constrain an attribute, and their total narrowness, by local number; zeroes between
    /// calls.
    count: Vec<(u32, u32)>,
    /// Most slots of an attribute.
    slots: u32,
    order: Vec<u32>,
}

impl<'a, F: Fn(u32) -> &'a [(u16, Hull)]> Clustering<F> {
    fn cluster(&mut self, mut members: Vec<u32>, used: &mut Vec<u16>) {
        while members.len() > BLOCK && used.len() < DEPTH {
            let Some(local) = self.commonest(&members, used) else { break };
            let hull_of = |at: u32| (self.hulls)(at).iter().find(|(other, _)| *other == local).map(|(_, hull)| *hull);
            let (mut with, mut without) = (Vec::new(), Vec::new());
            for &at in &members {
                match hull_of(at) {
                    Some(hull) => with.push((hull, at)),
                    None => without.push(at),
                }
            }
            with.sort_unstable_by_key(|&(hull, at)| (hull.low, hull.high, at));
            let cells = cells(with.len(), used.len());
            used.push(local);
            for cell in with.chunks(with.len().div_ceil(cells)) {
                self.cluster(cell.iter().map(|&(_, at)| at).collect(), used);
            }
            used.pop();
            members = without;
        }
        self.order.append(&mut members);
    }

    /// Returns the attribute that excludes most: constrained by most of `members`, narrowly.
    fn commonest(&mut self, members: &[u32], used: &[u16]) -> Option<u16> {
        let mut seen: Vec<u16> = Vec::new();
        for &at in members {
            for &(local, hull) in (self.hulls)(at) {
                let count = &mut self.count[usize::from(local)];
                if count.0 == 0 {
                    seen.push(local);
                }
                count.0 += 1;
                count.1 += SCALE.saturating_sub(u32::from(hull.high - hull.low) * SCALE / self.slots);
            }
        }
        let unused = seen.iter().copied().filter(|local| !used.contains(local));
        let best = unused.max_by_key(|&local| (self.count[usize::from(local)].1, local));
        for local in seen {
            self.count[usize::from(local)] = (0, 0);
        }
        best
    }
}

/// Returns the number of cells for this many conjunctions along one attribute. Cells of one block exclude most by this
/// attribute alone; with many blocks, larger cells leave room for ordering by the next attribute.
fn cells(count: usize, depth: usize) -> usize {
    let blocks = count.div_ceil(BLOCK);
    if depth + 1 < DEPTH && blocks > ONE_LEVEL { blocks / BLOCKS_LEFT } else { blocks }
}
