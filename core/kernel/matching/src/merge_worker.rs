//! Merges in another thread: parts of the index go in, one segment comes out, and no call waits.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use crate::build::build;
use crate::class::Class;
use crate::delta::Delta;
use crate::segment::Segment;

/// Immutable parts of an index.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) deltas: Vec<Arc<Delta>>,
}

impl Parts {
    fn conjunctions(&self) -> usize {
        let of_deltas = self.deltas.iter().map(|delta| delta.len());
        self.segments.iter().map(|segment| segment.conjunctions).chain(of_deltas).sum()
    }

    /// Merges these parts to one segment, without dead classes.
    pub(crate) fn merged(&self) -> Segment {
        let of_segments = self.segments.iter().map(|segment| (&segment.classes, &segment.numbers));
        let of_deltas = self.deltas.iter().map(|delta| (&delta.classes, &delta.numbers));
        let mut members = Members::default();
        for (classes, numbers) in of_segments.chain(of_deltas) {
            for (class, &number) in classes.iter().zip(numbers).filter(|(class, _)| !class.is_dead()) {
                members.classes.push(Arc::clone(class));
                members.numbers.push(number);
            }
        }
        build(members)
    }
}

/// Classes, and the numbers that they have in the index.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) classes: Vec<Arc<Class>>,
    pub(crate) numbers: Vec<u32>,
}

/// Returns freed memory to the system. An allocator may keep what a merge frees, which is about as much as the index.
pub type GiveBack = fn();

/// Memory is given back after parts with so many conjunctions were freed. Smaller parts are used again soon.
const GIVEN_BACK_FROM: usize = 1 << 15;

enum Job {
    Merge(Parts),
    /// Free parts: even freeing a million classes takes a while.
    Drop(Parts),
    /// Drop the sender, which ends the wait of `rest`, after all earlier jobs.
    Rest(#[expect(dead_code, reason = "its end is the message")] Sender<()>),
}

/// The thread that merges. It ends when this is dropped.
pub(crate) struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Segment>,
    /// The process of the thread. A forked child has the memory of its parent, but not its threads.
    process: u32,
}

impl Worker {
    /// Starts a thread; None if the system has none left.
    pub(crate) fn start(give_back: GiveBack) -> Option<Self> {
        let (jobs, todo) = channel();
        let (out, done) = channel();
        let work = move || {
            for job in todo {
                match job {
                    Job::Merge(parts) => {
                        let merged = parts.merged();
                        drop(parts);
                        if out.send(merged).is_err() {
                            return;
                        }
                    }
                    Job::Drop(parts) => {
                        let many = parts.conjunctions() >= GIVEN_BACK_FROM;
                        drop(parts);
                        if many {
                            give_back();
                        }
                    }
                    Job::Rest(_) => {}
                }
            }
        };
        std::thread::Builder::new().name("plait-merge".into()).spawn(work).ok()?;
        Some(Self { jobs, done, process: std::process::id() })
    }

    /// Whether its thread belongs to this process.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Starts a merge. Returns false if the thread is gone.
    pub(crate) fn merge(&self, parts: Parts) -> bool {
        self.jobs.send(Job::Merge(parts)).is_ok()
    }

    /// Frees parts in the thread.
    pub(crate) fn discard(&self, parts: Parts) {
        // If the thread is gone, the error contains the parts, and they are freed here.
        drop(self.jobs.send(Job::Drop(parts)));
    }

    /// Waits until all discarded parts are freed.
    pub(crate) fn rest(&self) {
        let (end, ended) = channel();
        if self.is_here() && self.jobs.send(Job::Rest(end)).is_ok() {
            // Always an error, since nothing is ever sent.
            let _ = ended.recv();
        }
    }

    /// Returns the finished segment, if there is one; an error if none will come.
    pub(crate) fn poll(&self) -> Result<Option<Segment>, Gone> {
        match self.done.try_recv() {
            Ok(segment) => Ok(Some(segment)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Gone),
        }
    }

    /// Waits for the segment.
    pub(crate) fn wait(&self) -> Result<Segment, Gone> {
        if self.is_here() { self.done.recv().map_err(|_| Gone) } else { Err(Gone) }
    }
}

/// The thread is gone.
#[derive(Debug)]
pub(crate) struct Gone;
