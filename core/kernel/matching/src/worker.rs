//! Merging in another thread: parts of the index go in, one segment comes out, and nobody waits.

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
    /// One segment of all that lives in these parts.
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

enum Job {
    Merge(Parts),
    /// Letting go of a million classes takes a while too.
    Drop(#[expect(dead_code, reason = "held to be dropped over there")] Parts),
    /// Everything before is done: this goes, and whoever waits for it hears.
    Rest(#[expect(dead_code, reason = "its end is the message")] Sender<()>),
}

/// The thread that merges. It ends when this is dropped.
pub(crate) struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Segment>,
    /// A fork has the memory of its parent, but not its threads.
    process: u32,
}

impl Worker {
    /// A thread, or None where no more can be had.
    pub(crate) fn start() -> Option<Self> {
        let (jobs, todo) = channel();
        let (out, done) = channel();
        let work = move || {
            for job in todo {
                if let Job::Merge(parts) = job {
                    let merged = parts.merged();
                    drop(parts);
                    if out.send(merged).is_err() {
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("plait-merge".into()).spawn(work).ok()?;
        Some(Self { jobs, done, process: std::process::id() })
    }

    /// Whether its thread is of this process.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// Starts a merge; false when the thread is gone.
    pub(crate) fn merge(&self, parts: Parts) -> bool {
        self.jobs.send(Job::Merge(parts)).is_ok()
    }

    /// Lets go of parts over there.
    pub(crate) fn discard(&self, parts: Parts) {
        // When the thread is gone the parts come back in the error and go here.
        drop(self.jobs.send(Job::Drop(parts)));
    }

    /// Waits until everything that it was given to let go of is gone.
    pub(crate) fn rest(&self) {
        let (end, ended) = channel();
        if self.is_here() && self.jobs.send(Job::Rest(end)).is_ok() {
            // An error, since nothing is ever sent.
            let _ = ended.recv();
        }
    }

    /// The segment that came out, if one did; an error when none ever will.
    pub(crate) fn poll(&self) -> Result<Option<Segment>, Gone> {
        match self.done.try_recv() {
            Ok(segment) => Ok(Some(segment)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Gone),
        }
    }

    /// Waits for the segment that comes out.
    pub(crate) fn wait(&self) -> Result<Segment, Gone> {
        if self.is_here() { self.done.recv().map_err(|_| Gone) } else { Err(Gone) }
    }
}

/// The thread is gone.
#[derive(Debug)]
pub(crate) struct Gone;
