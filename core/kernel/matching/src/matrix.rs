//! Slotted fail bits: for each slot of each attribute one row, with a bit for every conjunction that the slot excludes.
//!
//! An event selects one row per attribute; conjunctions that none of them marks may match, and are tested. Rows are
//! scanned in blocks of 512 conjunctions (a cache line of each row). A summary with one bit per block marks blocks that
//! a row excludes whole. So the order of the conjunctions, which the builder chooses, determines how few blocks are
//! read.

use std::ops::RangeInclusive;

use crate::cache_lines::{Line, Lines, WORDS};
use crate::class::Conjunction;
use crate::class_changes::Changes;
use crate::inner_hulls::{Inner, Verdict};
use crate::segment::Found;
use crate::slots::{Hull, Slots, Slotter};

/// Conjunctions of a block: the bits of a cache line.
pub(crate) const BLOCK: usize = WORDS * 64;

/// Rows between two checks whether any conjunction of a block is left.
const ROWS_AT_ONCE: usize = 4;

/// In matrices of more blocks than this, sorting the rows saves more than it costs.
const SORTED: usize = 64;

/// The rows of one attribute.
#[derive(Debug)]
struct Column {
    local: u16,
    first_row: u32,
    rows: u32,
}

/// Fail bits of some conjunctions.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) conjunctions: Vec<Conjunction>,
    columns: Vec<Column>,
    /// 2^shift slots share a row.
    shift: u32,
    /// Capacity in blocks.
    room: usize,
    /// Row after row, `room` blocks each.
    words: Lines,
    /// Row after row, `summary_words` words each; empty in a matrix that grows.
    summary: Vec<u64>,
    summary_words: usize,
    /// Number of conjunctions that a row excludes.
    weight: Vec<u32>,
    /// The inner hulls, if the matrix has few columns.
    pub(crate) inner: Option<Inner>,
}

impl Matrix {
    /// Builds the matrix of some conjunctions in their final order, with about `rows_max` rows at most; `hulls` returns
    /// the hulls of a conjunction's tests.
    pub(crate) fn build<'a>(
        conjunctions: Vec<Conjunction>,
        hulls: impl Fn(usize) -> &'a [(u16, Hull)],
        slotter: &Slotter,
        rows_max: usize,
    ) -> Self {
        let (columns, shift, rows) = columns((0..conjunctions.len()).map(&hulls), slotter, rows_max);
        let blocks = conjunctions.len().div_ceil(BLOCK);
        let summary_words = blocks.div_ceil(64);
        let mut matrix = Self {
            conjunctions,
            columns,
            shift,
            room: blocks,
            words: Lines::zeroed(blocks * rows),
            summary: vec![0; summary_words * rows],
            summary_words,
            weight: vec![0; rows],
            inner: None,
        };
        let column_of = matrix.column_of(slotter);
        for position in 0..matrix.conjunctions.len() {
            matrix.mark(position, hulls(position), &column_of);
        }
        matrix.summarise();
        matrix
    }

    /// Makes a matrix for adding conjunctions, with a capacity in blocks.
    pub(crate) fn growing(room: usize, slotter: &Slotter, rows_max: usize) -> Self {
        let locals: Vec<u16> = (1..slotter.len() as u16).collect();
        Self {
            conjunctions: Vec::new(),
            columns: Vec::new(),
            shift: shift_for(slotter, &locals, rows_max),
            room,
            words: Lines::zeroed(room * rows_max),
            summary: Vec::new(),
            summary_words: room.div_ceil(64),
            weight: Vec::new(),
            inner: None,
        }
    }

    /// Returns the local numbers of its columns, those first that most conjunctions constrain.
    pub(crate) fn locals(&self) -> impl Iterator<Item = u16> {
        self.columns.iter().map(|column| column.local)
    }

    /// Adds a conjunction to a growing matrix with capacity left. `column_of` maps local numbers to columns.
    pub(crate) fn push(
        &mut self,
        conjunction: Conjunction,
        hulls: &[(u16, Hull)],
        slotter: &Slotter,
        column_of: &mut Vec<u32>,
    ) {
        for &(local, _) in hulls {
            column_of.resize(column_of.len().max(slotter.len()), u32::MAX);
            if column_of[usize::from(local)] == u32::MAX {
                column_of[usize::from(local)] = self.columns.len() as u32;
                let (first_row, rows) = (self.weight.len() as u32, rows_of(slotter, local, self.shift));
                self.columns.push(Column { local, first_row, rows });
                let rows = (first_row + rows) as usize;
                self.weight.resize(rows, 0);
                self.words.grow(rows * self.room);
            }
        }
        let position = self.conjunctions.len();
        assert!(position < self.room * BLOCK, "a growing matrix has room for all conjunctions pushed to it");
        self.conjunctions.push(conjunction);
        self.mark(position, hulls, column_of);
    }

    fn column_of(&self, slotter: &Slotter) -> Vec<u32> {
        let mut column_of = vec![u32::MAX; slotter.len()];
        for (at, column) in self.columns.iter().enumerate() {
            column_of[usize::from(column.local)] = at as u32;
        }
        column_of
    }

    fn mark(&mut self, position: usize, hulls: &[(u16, Hull)], column_of: &[u32]) {
        let (block, word, bit) = (position / BLOCK, position / 64 % WORDS, 1_u64 << (position % 64));
        let words = self.words.as_mut();
        for &(local, hull) in hulls {
            let Some(column) = self.columns.get(column_of[usize::from(local)] as usize) else { continue };
            let (low, high) = (coarse(hull.low, self.shift), coarse(hull.high, self.shift));
            let first = column.first_row as usize;
            for row in (0..low).chain(high + 1..column.rows) {
                let row = first + row as usize;
                words[row * self.room + block][word] |= bit;
                self.weight[row] += 1;
            }
        }
    }

    /// Blocks in use.
    fn blocks(&self) -> usize {
        self.conjunctions.len().div_ceil(BLOCK)
    }

    fn summarise(&mut self) {
        let last = self.tail();
        let lines = self.words.as_ref();
        for row in (0..self.weight.len()).filter(|&row| self.weight[row] > 0) {
            for block in 0..self.blocks() {
                let words = &lines[row * self.room + block];
                let tail = if block + 1 == self.blocks() { last } else { [0; WORDS] };
                if words.iter().zip(tail).all(|(word, tail)| word | tail == u64::MAX) {
                    self.summary[row * self.summary_words + block / 64] |= 1 << (block % 64);
                }
            }
        }
    }

    /// The bits of the last block without a conjunction.
    fn tail(&self) -> [u64; WORDS] {
        let used = self.conjunctions.len() - self.blocks().saturating_sub(1) * BLOCK;
        std::array::from_fn(|word| match used.saturating_sub(word * 64) {
            0 => u64::MAX,
            64.. => 0,
            bits => u64::MAX << bits,
        })
    }

    /// Selects the rows for attributes in these slots, those first that exclude most.
    fn pick(&self, slots: &Slots, picked: &mut Vec<u32>) {
        picked.clear();
        for column in &self.columns {
            let Hull { low, high } = slots.hulls[usize::from(column.local)];
            let (first, second) = match (low, high) {
                (255, 0) => continue,
                (0, 255) => (column.rows - 1, column.rows - 1),
                _ => (coarse(low, self.shift), coarse(high, self.shift)),
            };
            for row in [first, second].into_iter().take(if first == second { 1 } else { 2 }) {
                if self.weight[(column.first_row + row) as usize] > 0 {
                    picked.push(column.first_row + row);
                }
            }
        }
        if self.blocks() > SORTED {
            picked.sort_unstable_by_key(|&row| std::cmp::Reverse(self.weight[row as usize]));
        }
    }

    /// Finds each conjunction that no row excludes for attributes in these slots.
    pub(crate) fn scan(&self, slots: &Slots, changes: &Changes, picked: &mut Vec<u32>, found: &mut Found) {
        self.pick(slots, picked);
        let lines = self.words.as_ref();
        let mut points = None;
        for at in 0..self.summary_words {
            let mut live = self.live_blocks(at, picked);
            while live != 0 {
                let block = at * 64 + live.trailing_zeros() as usize;
                live &= live - 1;
                let Some(failed) = self.failed(lines, block, picked) else { continue };
                each_clear(&failed, |place| {
                    let place = block * BLOCK + place;
                    let mut points = |inner: &Inner| *points.get_or_insert_with(|| slots.points(&inner.columns));
                    let known = self.inner.as_ref().and_then(|inner| Some((inner, points(inner)?)));
                    match known.map_or(Verdict::Open, |(inner, points)| inner.rows[place].verdict(&points, changes)) {
                        Verdict::Certain(id) => found.certain.push(id),
                        Verdict::Open => found.maybe.push(self.conjunctions[place]),
                        Verdict::Out => {}
                    }
                });
            }
        }
    }

    #[inline]
    fn live_blocks(&self, at: usize, picked: &[u32]) -> u64 {
        let here = self.blocks().saturating_sub(at * 64);
        if here == 0 {
            return 0;
        }
        let mut ruled_out = if here >= 64 { 0 } else { u64::MAX << here };
        if !self.summary.is_empty() {
            for &row in picked {
                ruled_out |= self.summary[row as usize * self.summary_words + at];
            }
        }
        !ruled_out
    }

    /// Returns the excluded conjunctions of a block; None if all are.
    #[inline]
    fn failed(&self, lines: &[Line], block: usize, picked: &[u32]) -> Option<Line> {
        let mut failed = if block + 1 == self.blocks() { self.tail() } else { [0; WORDS] };
        for rows in picked.chunks(ROWS_AT_ONCE) {
            for &row in rows {
                let words = &lines[row as usize * self.room + block];
                for (failed, word) in failed.iter_mut().zip(words) {
                    *failed |= word;
                }
            }
            if failed.iter().fold(u64::MAX, |all, word| all & word) == u64::MAX {
                return None;
            }
        }
        Some(failed)
    }

    /// Finds each conjunction that a query's hulls, which are given swapped, may intersect. With `within`, only those
    /// that constrain every attribute of the query.
    pub(crate) fn scan_intersecting(&self, slots: &Slots, within: bool, found: &mut Found) {
        let queried: Vec<Queried> = self.columns.iter().filter_map(|column| self.queried(column, slots)).collect();
        let lines = self.words.as_ref();
        for block in 0..self.blocks() {
            let tail = if block + 1 == self.blocks() { self.tail() } else { [0; WORDS] };
            let line = |row: u32| &lines[row as usize * self.room + block];
            let mut failed = tail;
            for Queried { rows, constrained } in &queried {
                let mut none = [u64::MAX; WORDS];
                for row in rows.clone() {
                    none.iter_mut().zip(line(row)).for_each(|(none, word)| *none &= word);
                    if none == [0; WORDS] {
                        break;
                    }
                }
                failed.iter_mut().zip(none).for_each(|(failed, none)| *failed |= none);
                if within {
                    failed.iter_mut().zip(line(*constrained)).for_each(|(failed, word)| *failed |= !word);
                }
                if failed == [u64::MAX; WORDS] {
                    break;
                }
            }
            each_clear(&failed, |place| found.maybe.push(self.conjunctions[block * BLOCK + place]));
        }
    }

    fn queried(&self, column: &Column, slots: &Slots) -> Option<Queried> {
        let hull = slots.hulls[usize::from(column.local)];
        let (low, high) = (coarse(hull.high, self.shift), coarse(hull.low, self.shift));
        let (first, constrained) = (column.first_row, column.first_row + column.rows - 1);
        (hull != Hull::ANY).then(|| Queried { rows: first + low..=first + high, constrained })
    }
}

/// The rows of a query's slots, and the row of the conjunctions that constrain the attribute at all.
struct Queried {
    rows: RangeInclusive<u32>,
    constrained: u32,
}

/// Calls `each` with the position of each clear bit.
#[inline]
fn each_clear(line: &Line, mut each: impl FnMut(usize)) {
    for (at, word) in line.iter().enumerate() {
        let mut left = !word;
        while left != 0 {
            each(at * 64 + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

/// Returns the row of a slot if 2^shift slots share one; absence keeps a row of its own.
#[inline]
fn coarse(slot: u8, shift: u32) -> u32 {
    if slot == 0 { 0 } else { 1 + (u32::from(slot - 1) >> shift) }
}

/// Number of rows of an attribute: those of its slots, and that of the conjunctions that constrain it at all.
fn rows_of(slotter: &Slotter, local: u16, shift: u32) -> u32 {
    coarse((slotter.cuts[usize::from(local)].slots() - 1) as u8, shift) + 2
}

/// Returns how coarse slots must be to give these attributes at most this many rows, if that is possible.
fn shift_for(slotter: &Slotter, locals: &[u16], rows_max: usize) -> u32 {
    let total = |shift: u32| locals.iter().map(|&local| rows_of(slotter, local, shift) as usize).sum::<usize>();
    (0..6).find(|&shift| total(shift) <= rows_max).unwrap_or(6)
}

/// Selects the columns that fit into this many rows, those first that most conjunctions constrain. Also returns the
/// coarseness and the number of rows.
fn columns<'a>(
    hulls: impl Iterator<Item = &'a [(u16, Hull)]>,
    slotter: &Slotter,
    rows_max: usize,
) -> (Vec<Column>, u32, usize) {
    let mut count = vec![0_u32; slotter.len()];
    for &(local, _) in hulls.flatten() {
        count[usize::from(local)] += 1;
    }
    let mut locals: Vec<u16> = (1..slotter.len() as u16).filter(|&local| count[usize::from(local)] > 0).collect();
    locals.sort_unstable_by_key(|&local| std::cmp::Reverse(count[usize::from(local)]));
    let shift = shift_for(slotter, &locals, rows_max);
    let mut columns = Vec::with_capacity(locals.len());
    let mut first_row = 0;
    for local in locals {
        let rows = rows_of(slotter, local, shift);
        if first_row > 0 && (first_row + rows) as usize > rows_max.max(64) {
            break;
        }
        columns.push(Column { local, first_row, rows });
        first_row += rows;
    }
    (columns, shift, first_row as usize)
}
