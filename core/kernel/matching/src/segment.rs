//! A segment: an immutable part of the index, laid out for the conjunctions that it was built from.
//!
//! A conjunction with a selective equality is reached through it: (attribute, value) leads to a cluster. A cluster is a
//! run, whose members are compared by the hulls of their other tests, or a matrix of its own if it is large. A
//! conjunction whose attributes are all rare is reached through the presence of its rarest. All others are in one
//! matrix.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::attribute_test::{Kind, Test};
use crate::class::{Class, Conjunction, decide_all};
use crate::class_changes::Changes;
use crate::hash::hash;
use crate::matrix::Matrix;
use crate::runs::{Run, Runs};
use crate::slots::{Slots, Slotter};

/// The access path to a cluster: a value of an attribute, by local number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Access {
    /// The number with this key.
    Number(u16, u64),
    /// The text with this id.
    Text(u16, u32),
    /// Any value.
    Any(u16),
}

impl Access {
    pub(crate) fn local(self) -> u16 {
        match self {
            Self::Number(local, _) | Self::Text(local, _) | Self::Any(local) => local,
        }
    }

    /// Whether every event with this access satisfies a test of this attribute.
    pub(crate) fn implies(self, test: &Test) -> bool {
        match self {
            Self::Number(_, key) => test.kind == Kind::Number && test.low == key,
            Self::Text(_, id) => test.kind == Kind::Text && test.high == u64::from(id),
            Self::Any(_) => test.kind == Kind::Present,
        }
    }
}

/// The results of a scan.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The holders of certain matches.
    pub(crate) certain: Vec<u64>,
    /// Conjunctions to be tested.
    pub(crate) maybe: Vec<Conjunction>,
}

impl Found {
    /// Calls `decide` with each conjunction to be tested, and with the ids to append to; then none is left.
    #[inline]
    pub(crate) fn decide_all(&mut self, classes: &[Arc<Class>], mut decide: impl FnMut(&Class, u32, &mut Vec<u64>)) {
        let Self { certain, maybe } = self;
        decide_all(classes, maybe, |class, start| decide(class, start, certain));
        maybe.clear();
    }
}

/// The members behind one access.
#[derive(Debug)]
pub(crate) enum Cluster {
    /// Few members, or members that a run distinguishes well.
    Run(Run),
    /// Many.
    Matrix(Box<Matrix>),
    /// So many members that they have slots of their own: the segment's slots are cut for all conjunctions, and the
    /// members of one cluster may lie in a few of them.
    Finer(Box<Finer>),
}

/// A matrix on slots of its own.
#[derive(Debug)]
pub(crate) struct Finer {
    pub(crate) slotter: Slotter,
    pub(crate) matrix: Matrix,
}

/// The accesses of an attribute: clusters by number.
pub(crate) const BY_NUMBER: u8 = 1;
/// Clusters by text.
pub(crate) const BY_TEXT: u8 = 2;
/// A cluster for any value.
pub(crate) const BY_ANY: u8 = 4;

/// An immutable part of the index.
pub(crate) struct Segment {
    pub(crate) slotter: Slotter,
    pub(crate) classes: Vec<Arc<Class>>,
    /// The numbers of the classes in the index.
    pub(crate) numbers: Vec<u32>,
    /// The classes that changed since.
    pub(crate) changes: Changes,
    pub(crate) matrix: Matrix,
    pub(crate) clusters: HashTable<(Access, Cluster)>,
    pub(crate) runs: Runs,
    /// The accesses of each attribute, by local number.
    pub(crate) accesses: Vec<u8>,
    /// Number of conjunctions that it was built from.
    pub(crate) conjunctions: usize,
}

impl Segment {
    /// Finds each conjunction that may match, for values in `slots` and the event's `accesses`; `fill` computes slots
    /// for other cuts.
    #[inline]
    pub(crate) fn scan(
        &self,
        slots: &Slots,
        accesses: &[Access],
        mut fill: impl FnMut(&mut Slots, &Slotter),
        finer: &mut Slots,
        picked: &mut Vec<u32>,
        found: &mut Found,
    ) {
        self.matrix.scan(slots, &self.changes, picked, found);
        for &access in accesses {
            let entry = self.clusters.find(hash(access), |(known, _)| *known == access);
            match entry {
                None => {}
                Some((_, Cluster::Matrix(matrix))) => matrix.scan(slots, &self.changes, picked, found),
                Some((_, Cluster::Finer(own))) => {
                    fill(finer, &own.slotter);
                    own.matrix.scan(finer, &self.changes, picked, found);
                }
                Some(&(_, Cluster::Run(run))) => self.runs.scan(run, slots, &self.changes, found),
            }
        }
    }

    /// Finds each conjunction that may intersect a query: its swapped hulls in `slots`, and the accesses that may lead
    /// to results.
    pub(crate) fn scan_intersecting(
        &self,
        slots: &Slots,
        within: bool,
        leads: impl Fn(Access) -> bool,
        mut fill: impl FnMut(&mut Slots, &Slotter),
        finer: &mut Slots,
        found: &mut Found,
    ) {
        self.matrix.scan_intersecting(slots, within, found);
        for (_, cluster) in self.clusters.iter().filter(|(access, _)| leads(*access)) {
            match cluster {
                Cluster::Matrix(matrix) => matrix.scan_intersecting(slots, within, found),
                Cluster::Finer(own) => {
                    fill(finer, &own.slotter);
                    own.matrix.scan_intersecting(finer, within, found);
                }
                Cluster::Run(run) => self.runs.scan(*run, slots, &self.changes, found),
            }
        }
    }
}
