//! When what is merged: deltas as they fill, segments with them by their size, everything when much of it is dead.

use std::sync::Arc;

use crate::build::build;
use crate::changes::Changes;
use crate::class::Class;
use crate::delta::{DELTA_MAX, Delta};
use crate::index::Index;
use crate::segment::Segment;
use crate::worker::{Members, Parts, Worker};

/// A delta is frozen at this size at least.
const DELTA_MIN: usize = 256;

/// Merges of so few conjunctions are done on the spot: they take less than handing them over.
const ON_THE_SPOT: usize = 512;

/// Segments up to so many times what is being merged are merged along, so that there are few and each is merged rarely.
const ALONG: usize = 2;

/// When one conjunction in so many is dead, everything is merged.
const DEAD: usize = 4;

/// When nothing waits and one conjunction in so many is outside the largest segment, everything is merged.
const SCATTERED: usize = 8;

impl Index {
    /// Conjunctions in segments, those that died since included.
    pub(crate) fn in_segments(&self) -> usize {
        self.parts.segments.iter().map(|segment| segment.conjunctions).sum()
    }

    /// Conjunctions outside them.
    pub(crate) fn waiting(&self) -> usize {
        self.delta.len() + self.parts.deltas.iter().map(|delta| delta.len()).sum::<usize>()
    }

    /// Takes up a new class of so many conjunctions.
    pub(crate) fn place(&mut self, class: &Arc<Class>, number: u32, conjunctions: usize) {
        if conjunctions > DELTA_MAX {
            let alone = Members { classes: vec![Arc::clone(class)], numbers: vec![number] };
            self.parts.segments.push(Arc::new(build(alone)));
            return;
        }
        let full = (self.in_segments() / 4).clamp(DELTA_MIN, DELTA_MAX);
        if self.delta.len() > 0 && self.delta.len() + conjunctions > full {
            self.freeze();
        }
        self.delta.push(class, number);
    }

    /// The delta as one of the parts, and a new one instead.
    pub(crate) fn freeze(&mut self) {
        if self.worker.as_ref().is_some_and(|worker| !worker.is_here()) {
            self.finish_merge(None); // this is a fork: what the thread of its parent merges never comes here
        }
        let largest = self.parts.segments.iter().max_by_key(|segment| segment.conjunctions);
        let delta = std::mem::replace(&mut self.delta, Delta::new(largest.map(|segment| &**segment)));
        if delta.len() > 0 {
            self.parts.deltas.push(Arc::new(delta));
        }
    }

    /// Puts in place what was merged, and starts to merge what is due.
    #[inline]
    pub(crate) fn maintain(&mut self) {
        if self.merging.is_some() {
            self.poll_merge();
        } else if self.changed {
            self.changed = false;
            if !self.parts.deltas.is_empty() || self.is_untidy() {
                self.merge_what_is_due();
            }
        }
    }

    fn is_untidy(&self) -> bool {
        let (inside, all) = (self.in_segments(), self.in_segments() + self.waiting());
        let largest = self.parts.segments.iter().map(|segment| segment.conjunctions).max().unwrap_or(0);
        let scattered = self.parts.segments.len() > 1 && (inside - largest) * SCATTERED > inside;
        scattered || (all > DELTA_MIN && (all - self.conjunctions.min(all)) * DEAD > all)
    }

    #[cold]
    fn merge_what_is_due(&mut self) {
        let untidy = self.is_untidy();
        let dead = self.in_segments() + self.waiting() - self.conjunctions;
        let mut due = Parts { segments: Vec::new(), deltas: self.parts.deltas.clone() };
        let mut size: usize = due.deltas.iter().map(|delta| delta.len()).sum();
        if dead * DEAD > self.in_segments() + self.waiting() || (untidy && due.deltas.is_empty()) {
            self.freeze();
            due = self.parts.clone();
            size = self.in_segments();
        } else {
            let mut segments = self.parts.segments.clone();
            segments.sort_by_key(|segment| segment.conjunctions);
            for segment in segments {
                if segment.conjunctions > size * ALONG {
                    break;
                }
                size += segment.conjunctions;
                due.segments.push(segment);
            }
        }
        if size <= ON_THE_SPOT {
            self.merge_here(due);
        } else {
            self.start_merge(due);
        }
    }

    pub(crate) fn start_merge(&mut self, due: Parts) {
        if self.worker.as_ref().is_none_or(|worker| !worker.is_here()) {
            self.worker = Worker::start();
        }
        if self.worker.as_ref().is_some_and(|worker| worker.merge(due.clone())) {
            self.merging = Some((due, self.no_changes()));
        } else {
            // No thread is to be had: the merge is done here, however long it takes.
            self.merge_here(due);
        }
    }

    fn merge_here(&mut self, due: Parts) {
        let merged = due.merged();
        self.install(due, merged, self.no_changes());
    }

    fn no_changes(&self) -> Changes {
        Changes::none(self.classes.ids())
    }

    /// Notes that a class changed hands: what was copied of it before no longer holds.
    pub(crate) fn note_change(&self, class: u32) {
        let laid_out = self.parts.segments.iter().map(|segment| &segment.changes);
        laid_out.chain(self.merging.iter().map(|(_, changes)| changes)).for_each(|changes| changes.mark(class));
    }

    #[inline]
    fn poll_merge(&mut self) {
        match self.worker.as_ref().map(Worker::poll) {
            Some(Ok(None)) => {}
            Some(Ok(Some(merged))) => self.finish_merge(Some(merged)),
            Some(Err(_)) | None => self.finish_merge(None),
        }
    }

    pub(crate) fn await_merge(&mut self) {
        if self.merging.is_some() {
            let merged = self.worker.as_ref().and_then(|worker| worker.wait().ok());
            self.finish_merge(merged);
        }
    }

    #[cold]
    fn finish_merge(&mut self, merged: Option<Segment>) {
        if merged.is_none() {
            self.worker = None; // its thread is gone, but what it was given is still here
        }
        if let Some((due, changes)) = self.merging.take() {
            match merged {
                Some(merged) => self.install(due, merged, changes),
                None => self.merge_here(due),
            }
        }
    }

    /// Puts a segment in the place of the parts that it was built of; `changes` tells of those since it began to be.
    fn install(&mut self, old: Parts, mut merged: Segment, changes: Changes) {
        merged.changes = changes;
        self.parts.segments.retain(|segment| !old.segments.iter().any(|gone| Arc::ptr_eq(gone, segment)));
        self.parts.deltas.retain(|delta| !old.deltas.iter().any(|gone| Arc::ptr_eq(gone, delta)));
        if merged.conjunctions > 0 {
            self.parts.segments.push(Arc::new(merged));
        }
        self.merges += 1;
        self.changed = true;
        if let Some(worker) = &self.worker {
            worker.discard(old);
        }
    }
}
