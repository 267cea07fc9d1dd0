//! The index: a table of classes, and the parts in which their conjunctions are found.
//!
//! New conjunctions go into the delta. When it is full it is frozen, and merged with segments of about its size in
//! another thread; the segment that comes out takes their place between two calls. Removing a filter marks its class
//! dead, and merging forgets it.

use std::sync::Arc;

use crate::class::{Class, Holders, hash_tests};
use crate::constraint::Value;
use crate::delta::{DELTA_MAX, Delta};
use crate::pool::{NONE, Pool};
use crate::relation::{Form, Question};
use crate::segment::{Access, BY_ANY, BY_NUMBER, BY_TEXT, Segment};
use crate::slab::{Ids, Place, Sharded, Slab};
use crate::slots::{Hull, Slotter};
use crate::test::{ABSENT, Event, Holding, Kind, LAST, Probe, State, Test, test_of};
use crate::wire::attributes::{self, Sink};
use crate::wire::frames::{FORWARD, Frame, PUBLISH, Splitter};
use crate::wire::{Limits, Refusal};
use crate::worker::{Parts, Worker};

/// Ids are below this.
pub const IDS_MAX: u64 = 1 << 63;

/// What was done wrong with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// It was added while it was there.
    Taken,
    /// It was removed without being there.
    Unknown,
    /// It is not below [`IDS_MAX`].
    OutOfRange,
}

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

/// How an index is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Ids.
    pub filters: usize,
    /// Filters that differ.
    pub classes: usize,
    /// Segments.
    pub segments: usize,
    /// Conjunctions in them.
    pub in_segments: usize,
    /// Conjunctions that wait to be merged.
    pub waiting: usize,
    /// Merges done.
    pub merges: u64,
    /// Candidates that the last match decided by their tests.
    pub candidates: usize,
}

/// Filters under ids.
pub struct Index {
    names: Pool,
    texts: Pool,
    classes: Slab<Arc<Class>>,
    class_of: Sharded<(u64, u32)>,
    class_count: usize,
    shared: Slab<Vec<u64>>,
    ids: Ids,
    conjunctions: usize,
    delta: Delta,
    parts: Parts,
    merging: Option<Parts>,
    worker: Option<Worker>,
    merges: u64,
    scratch: Scratch,
}

/// What matching writes on. Between calls, all slots are those of absence and so are all probes.
#[derive(Default)]
struct Scratch {
    probes: Vec<Probe>,
    slots: Vec<Hull>,
    accesses: Vec<Access>,
    picked: Vec<u32>,
    candidates: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// The empty index.
    #[must_use]
    pub fn new() -> Self {
        Self {
            names: Pool::default(),
            texts: Pool::default(),
            classes: Slab::default(),
            class_of: Sharded::default(),
            class_count: 0,
            shared: Slab::default(),
            ids: Ids::default(),
            conjunctions: 0,
            delta: Delta::new(None),
            parts: Parts::default(),
            merging: None,
            worker: None,
            merges: 0,
            scratch: Scratch::default(),
        }
    }

    /// How many ids there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an id is there.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.ids.find(id).is_some()
    }

    /// The number of an attribute in events, or None when no filter speaks of it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<u32> {
        Some(self.names.find(name)).filter(|&id| id != NONE)
    }

    /// How it is doing.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            filters: self.ids.len(),
            classes: self.class_count,
            segments: self.parts.segments.len(),
            in_segments: self.in_segments(),
            waiting: self.waiting(),
            merges: self.merges,
            candidates: self.scratch.candidates,
        }
    }

    /// Keeps a filter under an id.
    ///
    /// # Errors
    /// The id is taken or too large.
    pub fn add(&mut self, id: u64, form: &Form) -> Result<(), Misuse> {
        if id >= IDS_MAX {
            return Err(Misuse::OutOfRange);
        }
        if self.contains(id) {
            return Err(Misuse::Taken);
        }
        let (tests, rich) = self.encode(form);
        let hash = hash_tests(&tests);
        let classes = &self.classes;
        let known = self.class_of.find(hash, |&(other, class)| other == hash && classes.get(class).asks(&tests, &rich));
        if let Some(&(_, class)) = known {
            self.release(&tests, &rich);
            self.join(id, class);
        } else {
            let class = Class::new(&tests, rich, id);
            self.conjunctions += form.0.len();
            self.class_count += 1;
            self.place(&class, form.0.len());
            let class = self.classes.insert(class);
            self.class_of.insert(hash, (hash, class), |&(hash, _)| hash);
            self.ids.insert(Place { id, class, at: 0 });
        }
        self.maintain();
        Ok(())
    }

    /// Forgets an id.
    ///
    /// # Errors
    /// The id is not there.
    pub fn remove(&mut self, id: u64) -> Result<(), Misuse> {
        let Place { class, at, .. } = self.ids.remove(id).ok_or(Misuse::Unknown)?;
        match self.classes.get(class).holders() {
            Holders::Shared(list) => {
                let ids = self.shared.get_mut(list);
                ids.swap_remove(at as usize);
                if let Some(&moved) = ids.get(at as usize) {
                    self.ids.find_mut(moved).expect("listed ids are there").at = at;
                }
                if ids.is_empty() {
                    self.shared.remove(list);
                    self.bury(class);
                }
            }
            Holders::One(_) => self.bury(class),
            Holders::Dead => unreachable!("an id holds its class"),
        }
        self.maintain();
        Ok(())
    }

    /// Appends the ids whose filters are true of an event to `found`, in ascending order.
    pub fn matches(&mut self, event: &Event<'_>, found: &mut Vec<u64>) {
        self.maintain();
        let from = found.len();
        let Self { names, texts, shared, scratch, delta, parts, .. } = self;
        scratch.probes.resize(names.ids().max(1), ABSENT);
        for (at, (attr, value)) in event.iter().enumerate() {
            scratch.probes[*attr as usize] = Probe::new(value, at, texts);
        }
        let Scratch { probes, slots, accesses, picked, candidates } = scratch;
        *candidates = 0;
        let mut several = false;
        let mut decide = |class: &Class, start: u32| {
            *candidates += 1;
            let holders = class.holders();
            if holders == Holders::Dead || !class.accepts(start, probes, event) {
                return;
            }
            several |= start > 0;
            match holders {
                Holders::One(id) => found.push(id),
                Holders::Shared(list) => found.extend_from_slice(shared.get(list)),
                Holders::Dead => {}
            }
        };
        for delta in parts.deltas.iter().map(|delta| &**delta).chain([&*delta]).filter(|delta| delta.len() > 0) {
            prepare(event, probes, &delta.slotter, slots);
            delta.scan(slots, picked, &mut decide);
            forget(event, &delta.slotter, slots);
        }
        for segment in &parts.segments {
            prepare(event, probes, &segment.slotter, slots);
            find_accesses(event, probes, segment, accesses);
            segment.scan(slots, accesses, picked, &mut decide);
            forget(event, &segment.slotter, slots);
        }
        for (attr, _) in event {
            probes[*attr as usize] = ABSENT;
        }
        put_in_order(found, from, several);
    }

    /// Splits a buffer into frames, and matches those that carry an event to route.
    pub fn match_many(&mut self, buffer: &[u8], splitter: &Splitter) -> Matches {
        let mut matches = Matches::default();
        let mut event = Vec::new();
        loop {
            match self.match_next(buffer, splitter, &mut matches, &mut event) {
                Ok(true) => {}
                Ok(false) => return matches,
                Err(refusal) => {
                    matches.refusal = Some(refusal);
                    return matches;
                }
            }
        }
    }

    /// Takes one frame; false when the rest of the buffer is none.
    fn match_next<'a>(
        &mut self,
        buffer: &'a [u8],
        splitter: &Splitter,
        matches: &mut Matches,
        event: &mut Vec<(u32, Value<'a>)>,
    ) -> Result<bool, Refusal> {
        let Some(frame) = splitter.next(buffer, matches.taken)? else { return Ok(false) };
        if matches!(frame.number, PUBLISH | FORWARD) {
            event.clear();
            self.read_event(frame.attributes(buffer), &splitter.limits, event)?;
            self.matches(event, &mut matches.ids);
        }
        matches.frames.push((frame, matches.ids.len()));
        matches.taken = frame.end;
        Ok(true)
    }

    /// Reads the attributes that filters speak of out of msgpack.
    ///
    /// # Errors
    /// The bytes are not the attributes of an event.
    pub fn read_event<'a>(
        &self,
        packed: &'a [u8],
        limits: &Limits,
        event: &mut Vec<(u32, Value<'a>)>,
    ) -> Result<(), Refusal> {
        attributes::read(packed, limits, &mut Known { names: &self.names, event })
    }

    /// Appends the ids whose filters cover a filter to `found`, in ascending order.
    pub fn covering(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let question = Question::new(form, &self.names, &self.texts);
        if question.is_empty() {
            return self.among_all(found, |_, _| true);
        }
        let from = found.len();
        let Self { texts, shared, scratch: Scratch { slots, accesses, picked, .. }, delta, parts, .. } = self;
        let mut decide = |class: &Class, _: u32| {
            if !class.is_dead() && question.is_covered_by(class, texts) {
                push_holders(class, shared, found);
            }
        };
        for delta in parts.deltas.iter().map(|delta| &**delta).chain([&*delta]) {
            ask(&question, &delta.slotter, slots);
            delta.scan(slots, picked, &mut decide);
        }
        for segment in &parts.segments {
            ask(&question, &segment.slotter, slots);
            accesses.clear();
            question.accesses(&segment.slotter, accesses);
            segment.scan(slots, accesses, picked, &mut decide);
        }
        slots.fill(Hull::ABSENT);
        put_in_order(found, from, true);
    }

    /// Appends the ids whose filters a filter covers to `found`, in ascending order.
    pub fn covered(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let question = Question::new(form, &self.names, &self.texts);
        self.among_all(found, |class, texts| question.covers(class, texts));
    }

    /// Appends the ids whose filters intersect a filter to `found`, in ascending order.
    pub fn intersecting(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let question = Question::new(form, &self.names, &self.texts);
        self.among_all(found, |class, texts| question.intersects(class, texts));
    }

    /// Waits until everything that was added is merged into one segment.
    pub fn settle(&mut self) {
        loop {
            self.await_merge();
            let dead = self.in_segments() + self.waiting() > self.conjunctions;
            if self.waiting() == 0 && self.parts.segments.len() <= 1 && !dead {
                return;
            }
            self.freeze();
            let all = self.parts.clone();
            self.start_merge(all);
        }
    }

    fn among_all(&self, found: &mut Vec<u64>, wanted: impl Fn(&Class, &Pool) -> bool) {
        let from = found.len();
        for class in self.classes.values().filter(|class| wanted(class, &self.texts)) {
            push_holders(class, &self.shared, found);
        }
        put_in_order(found, from, false);
    }

    // --- classes ----------------------------------------------------------------------------------------------------

    /// The tests of a filter, whose names and texts are held from now on.
    fn encode(&mut self, form: &Form) -> (Vec<Test>, Vec<crate::test::Rich>) {
        let mut tests = Vec::with_capacity(form.0.iter().map(|conjunction| conjunction.len().max(1)).sum());
        let mut rich = Vec::new();
        for conjunction in &form.0 {
            let from = tests.len();
            for (name, constraint) in conjunction {
                let attr = self.names.hold(name);
                tests.push(test_of(attr, constraint, &mut rich, &mut Holding(&mut self.texts)));
            }
            if conjunction.is_empty() {
                tests.push(Test { attr: 0, kind: Kind::Always, flags: 0, low: 0, high: 0 });
            }
            tests[from..].sort_by_key(|test| test.attr);
            tests.last_mut().expect("one at least").flags |= LAST;
        }
        (tests, rich)
    }

    /// Lets go of the names and texts of some tests.
    fn release<'a>(&mut self, tests: impl IntoIterator<Item = &'a Test>, rich: &[crate::test::Rich]) {
        for test in tests {
            match test.kind {
                Kind::Always => continue,
                Kind::Text => self.texts.release(test.high as u32),
                Kind::Rich => {
                    for &(_, id) in &rich[test.low as usize].points {
                        self.texts.release(id);
                    }
                }
                _ => {}
            }
            self.names.release(test.attr);
        }
    }

    /// One more id for a class.
    fn join(&mut self, id: u64, class: u32) {
        let at = match self.classes.get(class).holders() {
            Holders::One(first) => {
                let list = self.shared.insert(vec![first, id]);
                self.classes.get(class).set_holders(Holders::Shared(list));
                1
            }
            Holders::Shared(list) => {
                let ids = self.shared.get_mut(list);
                ids.push(id);
                u32::try_from(ids.len() - 1).expect("fewer than 2^32 ids share a class")
            }
            Holders::Dead => unreachable!("dead classes are not found"),
        };
        self.ids.insert(Place { id, class, at });
    }

    /// Nobody holds a class any more. A filter that asks the same later is a class of its own.
    fn bury(&mut self, at: u32) {
        let class = self.classes.remove(at);
        class.set_holders(Holders::Dead);
        self.class_of.remove(class.hash, |&(_, other)| other == at).expect("a living class is found");
        self.class_count -= 1;
        self.conjunctions -= class.starts().count();
        self.release(class.tests(), class.rich());
    }

    // --- merging ----------------------------------------------------------------------------------------------------

    fn in_segments(&self) -> usize {
        self.parts.segments.iter().map(|segment| segment.conjunctions).sum()
    }

    fn waiting(&self) -> usize {
        self.delta.len() + self.parts.deltas.iter().map(|delta| delta.len()).sum::<usize>()
    }

    fn place(&mut self, class: &Arc<Class>, conjunctions: usize) {
        let full = (self.in_segments() / 4).clamp(DELTA_MIN, DELTA_MAX);
        if self.delta.len() > 0 && self.delta.len() + conjunctions > full {
            self.freeze();
        }
        self.delta.push(class);
    }

    /// The delta as one of the parts, and a new one instead.
    fn freeze(&mut self) {
        let largest = self.parts.segments.iter().max_by_key(|segment| segment.conjunctions);
        let delta = std::mem::replace(&mut self.delta, Delta::new(largest.map(|segment| &**segment)));
        if delta.len() > 0 {
            self.parts.deltas.push(Arc::new(delta));
        }
    }

    /// Puts in place what was merged, and starts to merge what is due.
    #[inline]
    fn maintain(&mut self) {
        if self.merging.is_some() {
            self.poll_merge();
        } else if !self.parts.deltas.is_empty() || self.is_untidy() {
            self.merge_what_is_due();
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
            let merged = due.merged();
            self.install(due, merged);
        } else {
            self.start_merge(due);
        }
    }

    fn start_merge(&mut self, due: Parts) {
        if self.worker.as_ref().is_none_or(|worker| !worker.is_here()) {
            self.worker = Worker::start();
        }
        if self.worker.as_ref().is_some_and(|worker| worker.merge(due.clone())) {
            self.merging = Some(due);
        } else {
            // No thread is to be had: the merge is done here, however long it takes.
            let merged = due.merged();
            self.install(due, merged);
        }
    }

    #[inline]
    fn poll_merge(&mut self) {
        match self.worker.as_ref().map(Worker::poll) {
            Some(Ok(None)) => {}
            Some(Ok(Some(merged))) => self.finish_merge(Some(merged)),
            Some(Err(_)) | None => self.finish_merge(None),
        }
    }

    fn await_merge(&mut self) {
        if self.merging.is_some() {
            let merged = self.worker.as_ref().and_then(|worker| worker.wait().ok());
            self.finish_merge(merged);
        }
    }

    #[cold]
    fn finish_merge(&mut self, merged: Option<Segment>) {
        let Some(due) = self.merging.take() else { return };
        match merged {
            Some(merged) => self.install(due, merged),
            None => {
                self.worker = None; // its thread is gone; what it was given is still here, and due again
                let merged = due.merged();
                self.install(due, merged);
            }
        }
    }

    fn install(&mut self, old: Parts, merged: Segment) {
        self.parts.segments.retain(|segment| !old.segments.iter().any(|gone| Arc::ptr_eq(gone, segment)));
        self.parts.deltas.retain(|delta| !old.deltas.iter().any(|gone| Arc::ptr_eq(gone, delta)));
        if merged.conjunctions > 0 {
            self.parts.segments.push(Arc::new(merged));
        }
        self.merges += 1;
        if let Some(worker) = &self.worker {
            worker.discard(old);
        }
    }
}

/// The frames of a buffer, and whom those that carry an event are for.
#[derive(Debug, Default)]
pub struct Matches {
    /// The frames, each with the end of its ids.
    pub frames: Vec<(Frame, usize)>,
    /// The ids of all frames.
    pub ids: Vec<u64>,
    /// Bytes that the frames take up.
    pub taken: usize,
    /// Why the next frame is none, if so.
    pub refusal: Option<Refusal>,
}

/// Keeps the attributes that filters speak of.
struct Known<'e, 'a> {
    names: &'e Pool,
    event: &'e mut Vec<(u32, Value<'a>)>,
}

impl<'a> Sink<'a> for Known<'_, 'a> {
    #[inline]
    fn take(&mut self, name: &'a str, value: Value<'a>) -> bool {
        let attr = self.names.find(name);
        if attr != NONE {
            self.event.push((attr, value));
        }
        attr != NONE
    }
}

/// The slots of an event's values.
#[inline]
fn prepare(event: &Event<'_>, probes: &[Probe], slotter: &Slotter, slots: &mut Vec<Hull>) {
    if slots.len() < slotter.len() {
        slots.resize(slotter.len(), Hull::ABSENT);
    }
    for (attr, _) in event {
        let local = usize::from(slotter.local(*attr));
        if local != 0 {
            slots[local] = slotter.cuts[local].of_probe(&probes[*attr as usize]);
        }
    }
}

#[inline]
fn forget(event: &Event<'_>, slotter: &Slotter, slots: &mut [Hull]) {
    for (attr, _) in event {
        slots[usize::from(slotter.local(*attr))] = Hull::ABSENT;
    }
}

#[inline]
fn find_accesses(event: &Event<'_>, probes: &[Probe], segment: &Segment, accesses: &mut Vec<Access>) {
    accesses.clear();
    if segment.clusters.is_empty() {
        return;
    }
    for (attr, _) in event {
        let local = segment.slotter.local(*attr);
        let (by, probe) = (segment.accesses[usize::from(local)], &probes[*attr as usize]);
        if by == 0 {
            continue;
        }
        match probe.state {
            State::Number if by & BY_NUMBER != 0 && probe.low == probe.high => accesses.push(Access::Number(local, probe.low)),
            State::Text if by & BY_TEXT != 0 && probe.text != NONE => accesses.push(Access::Text(local, probe.text)),
            _ => {}
        }
        if by & BY_ANY != 0 && probe.state != State::Absent {
            accesses.push(Access::Any(local));
        }
    }
}

/// The slots that must lie within the hulls of a filter that covers.
fn ask(question: &Question, slotter: &Slotter, slots: &mut Vec<Hull>) {
    slots.clear();
    slots.resize(slotter.len(), Hull::UNKNOWN);
    question.slots(slotter, slots);
}

fn push_holders(class: &Class, shared: &Slab<Vec<u64>>, found: &mut Vec<u64>) {
    match class.holders() {
        Holders::One(id) => found.push(id),
        Holders::Shared(list) => found.extend_from_slice(shared.get(list)),
        Holders::Dead => {}
    }
}

/// Sorts what was found from `from` on; `several` when ids may have been found twice.
#[inline]
fn put_in_order(found: &mut Vec<u64>, from: usize, several: bool) {
    found[from..].sort_unstable();
    if several {
        let mut kept = from;
        for at in from..found.len() {
            if kept == from || found[kept - 1] != found[at] {
                found[kept] = found[at];
                kept += 1;
            }
        }
        found.truncate(kept);
    }
}
