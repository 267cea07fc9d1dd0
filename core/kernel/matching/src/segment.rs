//! A segment: an immutable part of the index, laid out for the conjunctions that it was built from.
//!
//! A conjunction with a selective equality is reached through it: (attribute, value) leads to a cluster, a run whose
//! members are judged by the hulls of their other tests, or a matrix of its own where there are many. One whose
//! attributes are all rare is reached through the presence of its rarest. All others stand in one matrix.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::class::{Class, Conjunction};
use crate::hash::hash;
use crate::matrix::Matrix;
use crate::runs::{Run, Runs};
use crate::slots::{Cuts, Hull, Slotter};

/// What leads to a cluster: a value of an attribute, by local number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Access {
    /// The number with this key.
    Number(u16, u64),
    /// The text with this id.
    Text(u16, u32),
    /// Any value at all.
    Any(u16),
}

impl Access {
    pub(crate) fn local(self) -> u16 {
        match self {
            Self::Number(local, _) | Self::Text(local, _) | Self::Any(local) => local,
        }
    }
}

/// The members behind one access.
#[derive(Debug)]
pub(crate) enum Cluster {
    /// Few, or such as one look at each tells apart well.
    Run(Run),
    /// Many.
    Matrix(Box<Matrix>),
    /// So many that they are worth slots of their own: those of the segment are cut for all conjunctions, and the members
    /// of one cluster may crowd in a few of them.
    Finer(Box<Finer>),
}

/// A matrix on slots of its own.
#[derive(Debug)]
pub(crate) struct Finer {
    /// By the local numbers of the matrix.
    pub(crate) cuts: Vec<Cuts>,
    pub(crate) matrix: Matrix,
}

/// Which accesses an attribute has.
pub(crate) const BY_NUMBER: u8 = 1;
/// It has clusters by text.
pub(crate) const BY_TEXT: u8 = 2;
/// It has a cluster for any value.
pub(crate) const BY_ANY: u8 = 4;

/// An immutable part of the index.
pub(crate) struct Segment {
    pub(crate) slotter: Slotter,
    pub(crate) classes: Vec<Arc<Class>>,
    pub(crate) matrix: Matrix,
    pub(crate) clusters: HashTable<(Access, Cluster)>,
    pub(crate) runs: Runs,
    /// Which accesses each attribute has, by local number.
    pub(crate) accesses: Vec<u8>,
    /// How many conjunctions it was built from.
    pub(crate) conjunctions: usize,
}

impl Segment {
    /// Finds each conjunction that may match: `slots` by local number, `accesses` of the event, and how other cuts tell
    /// the slots of an attribute.
    #[inline]
    pub(crate) fn scan(
        &self,
        slots: &[Hull],
        accesses: &[Access],
        slot_of: impl Fn(&Cuts) -> Hull,
        finer: &mut Vec<Hull>,
        picked: &mut Vec<u32>,
        found: &mut Vec<Conjunction>,
    ) {
        self.matrix.scan(slots, picked, found);
        for &access in accesses {
            let entry = self.clusters.find(hash(access), |(known, _)| *known == access);
            match entry {
                None => {}
                Some((_, Cluster::Matrix(matrix))) => matrix.scan(slots, picked, found),
                Some((_, Cluster::Finer(own))) => {
                    finer.clear();
                    finer.push(Hull::ABSENT);
                    finer.extend(own.cuts.iter().skip(1).map(&slot_of));
                    own.matrix.scan(finer, picked, found);
                }
                Some(&(_, Cluster::Run(run))) => self.runs.scan(run, slots, found),
            }
        }
    }
}
