//! The schedule of merges: deltas as they fill, segments with them by size, everything if much of it is dead.

use std::sync::Arc;

use crate::build::build;
use crate::class::Class;
use crate::class_changes::Changes;
use crate::delta::{DELTA_MAX, Delta};
use crate::index::Index;
use crate::merge_worker::{Members, Parts, Worker};
use crate::segment::Segment;

/// A delta is frozen at this size at least.
const DELTA_MIN: usize = 256;

/// Smaller merges run immediately: they take less time than the handover to the thread.
const ON_THE_SPOT: usize = 512;

/// Segments up to this many times the merged size are included, so that there are few segments and each is merged
/// rarely.
const ALONG: usize = 2;

/// If one conjunction in this many is dead, everything is merged.
const DEAD: usize = 4;

/// If nothing waits and one conjunction in this many is outside the largest segment, everything is merged.
const SCATTERED: usize = 8;

impl Index {
    /// Conjunctions in segments, including dead ones.
    pub(crate) fn in_segments(&self) -> usize {
        self.parts.segments.iter().map(|segment| segment.conjunctions).sum()
    }

    /// Conjunctions outside segments.
    pub(crate) fn waiting(&self) -> usize {
        self.delta.len() + self.parts.deltas.iter().map(|delta| delta.len()).sum::<usize>()
    }

    /// Adds a new class with this many conjunctions.
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

    /// Turns the delta into one of the parts, and begins a new one.
    pub(crate) fn freeze(&mut self) {
        if self.worker.as_ref().is_some_and(|worker| !worker.is_here()) {
            self.finish_merge(None); // this is a forked child: the merge of the parent's thread never arrives here
        }
        let largest = self.parts.segments.iter().max_by_key(|segment| segment.conjunctions);
        let delta = std::mem::replace(&mut self.delta, Delta::new(largest.map(|segment| &**segment)));
        if delta.len() > 0 {
            self.parts.deltas.push(Arc::new(delta));
        }
    }

    /// Installs a finished merge, and starts the merge that is due.
    #[inline]
    pub(crate) fn maintain(&mut self) {
        if self.merging.is_some() {
            self.poll_merge();
        } else if self.changed {
            self.changed = false;
            if !self.parts.deltas.is_empty() || self.needs_full_merge() {
                self.start_due_merge();
            }
        }
    }

    fn needs_full_merge(&self) -> bool {
        let (inside, all) = (self.in_segments(), self.in_segments() + self.waiting());
        let largest = self.parts.segments.iter().map(|segment| segment.conjunctions).max().unwrap_or(0);
        let scattered = self.parts.segments.len() > 1 && (inside - largest) * SCATTERED > inside;
        scattered || (all > DELTA_MIN && (all - self.conjunctions.min(all)) * DEAD > all)
    }

    #[cold]
    fn start_due_merge(&mut self) {
        let full = self.needs_full_merge();
        let dead = self.in_segments() + self.waiting() - self.conjunctions;
        let mut due = Parts { segments: Vec::new(), deltas: self.parts.deltas.clone() };
        let mut size: usize = due.deltas.iter().map(|delta| delta.len()).sum();
        if dead * DEAD > self.in_segments() + self.waiting() || (full && due.deltas.is_empty()) {
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
            self.merge_inline(due);
        } else {
            self.start_merge(due);
        }
    }

    pub(crate) fn start_merge(&mut self, due: Parts) {
        if self.worker.as_ref().is_none_or(|worker| !worker.is_here()) {
            self.worker = Worker::start(self.give_back);
        }
        if self.worker.as_ref().is_some_and(|worker| worker.merge(due.clone())) {
            self.merging = Some((due, self.no_changes()));
        } else {
            // No thread is available, so the merge runs here, however long it takes.
            self.merge_inline(due);
        }
    }

    fn merge_inline(&mut self, due: Parts) {
        let merged = due.merged();
        self.install(due, merged, self.no_changes());
    }

    fn no_changes(&self) -> Changes {
        Changes::none(self.classes.ids())
    }

    /// Records that a class changed, so that copies of its holders are out of date.
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
            self.worker = None; // its thread is gone, but the parts are still here
        }
        if let Some((due, changes)) = self.merging.take() {
            match merged {
                Some(merged) => self.install(due, merged, changes),
                None => self.merge_inline(due),
            }
        }
    }

    /// Replaces the parts that a segment was built of by the segment; `changes` are those since the building began.
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
