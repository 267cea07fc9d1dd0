//! The delta: the classes added since the last merge began. It only grows, until it is frozen and merged.

use std::sync::Arc;

use crate::class::{Class, Conjunction};
use crate::class_changes::Changes;
use crate::matrix::{BLOCK, Matrix};
use crate::segment::{Found, Segment};
use crate::slots::{Cuts, Hull, Slots, Slotter};

/// Conjunctions of one delta at most: eight blocks, all of which a match scans.
pub(crate) const DELTA_MAX: usize = 8 * BLOCK;

/// Attributes with rows in a delta; conditions on others exclude nothing and are left to the tests.
const ATTRIBUTES_MAX: usize = 128;

/// Rows of a delta at most, about: three quarters of a megabyte.
const ROWS_MAX: usize = 1500;

/// The recently added classes.
pub(crate) struct Delta {
    pub(crate) slotter: Slotter,
    pub(crate) classes: Vec<Arc<Class>>,
    /// The numbers of the classes in the index.
    pub(crate) numbers: Vec<u32>,
    pub(crate) matrix: Matrix,
    unchanged: Changes,
    column_of: Vec<u32>,
    hulls: Vec<(u16, Hull)>,
}

impl Delta {
    /// An empty delta with the cuts of a segment.
    pub(crate) fn new(like: Option<&Segment>) -> Self {
        let mut slotter = Slotter::new();
        for cuts in like.iter().flat_map(|segment| segment.slotter.cuts.iter().skip(1).take(ATTRIBUTES_MAX)) {
            slotter.add(cuts.clone());
        }
        let matrix = Matrix::growing(DELTA_MAX / BLOCK, &slotter, ROWS_MAX);
        let (classes, numbers, unchanged) = (Vec::new(), Vec::new(), Changes::default());
        Self { slotter, classes, numbers, matrix, unchanged, column_of: Vec::new(), hulls: Vec::new() }
    }

    /// Number of its conjunctions.
    pub(crate) fn len(&self) -> usize {
        self.matrix.conjunctions.len()
    }

    /// Adds the conjunctions of a class.
    pub(crate) fn push(&mut self, class: &Arc<Class>, number: u32) {
        let at = self.classes.len() as u32;
        self.classes.push(Arc::clone(class));
        self.numbers.push(number);
        for test in class.tests() {
            if self.slotter.len() <= ATTRIBUTES_MAX && self.slotter.local(test.attr) == 0 {
                self.slotter.add(Cuts::new(test.attr, Vec::new(), Vec::new(), 0));
            }
        }
        for start in class.starts() {
            self.slotter.hulls(class, start, &mut self.hulls);
            let conjunction = Conjunction { class: at, start };
            self.matrix.push(conjunction, &self.hulls, &self.slotter, &mut self.column_of);
        }
    }

    /// Finds each conjunction that may match.
    #[inline]
    pub(crate) fn scan(&self, slots: &Slots, picked: &mut Vec<u32>, found: &mut Found) {
        self.matrix.scan(slots, &self.unchanged, picked, found);
    }
}
