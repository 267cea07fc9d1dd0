//! The index: a table of classes, and the parts in which their conjunctions are found.
//!
//! New conjunctions go into the delta. When it is full it is frozen, and merged with segments of about its size in
//! another thread; the segment that comes out takes their place between two calls. Removing a filter marks its class
//! dead, and merging forgets it.

use std::sync::Arc;

use crate::class::{Class, Conjunction, Holders, decide_all, hash_tests};
use crate::delta::Delta;
use crate::pool::{NONE, Pool};
use crate::relation::{Form, Question};
use crate::segment::{Access, BY_ANY, BY_NUMBER, BY_TEXT, Segment};
use crate::slab::{Ids, Place, Sharded, Slab};
use crate::slots::{Cuts, Hull, Slotter};
use crate::sorting::sort_ids;
use crate::test::{ABSENT, Event, Holding, Kind, LAST, Probe, State, Test, test_of};
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
    pub(crate) names: Pool,
    texts: Pool,
    classes: Slab<Arc<Class>>,
    class_of: Sharded<u32>,
    class_count: usize,
    shared: Slab<Vec<u64>>,
    ids: Ids,
    pub(crate) conjunctions: usize,
    pub(crate) delta: Delta,
    pub(crate) parts: Parts,
    pub(crate) merging: Option<Parts>,
    pub(crate) worker: Option<Worker>,
    pub(crate) merges: u64,
    scratch: Scratch,
}

/// What matching writes on. Between calls, all slots are those of absence and so are all probes.
#[derive(Default)]
struct Scratch {
    probes: Vec<Probe>,
    slots: Vec<Hull>,
    accesses: Vec<Access>,
    finer: Vec<Hull>,
    picked: Vec<u32>,
    maybe: Vec<Conjunction>,
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
        let known = self.class_of.find(hash, |&class| classes.get(class).asks(&tests, &rich));
        if let Some(&class) = known {
            self.release(&tests, &rich);
            self.join(id, class);
        } else {
            let class = Class::new(&tests, rich, id);
            self.conjunctions += form.0.len();
            self.class_count += 1;
            self.place(&class, form.0.len());
            let class = self.classes.insert(class);
            let classes = &self.classes;
            self.class_of.insert(hash, class, |&class| hash_tests(classes.get(class).tests()));
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
                let moved = ids.get(at as usize).and_then(|&moved| self.ids.find_mut(moved));
                if let Some(moved) = moved {
                    moved.at = at;
                }
                if ids.is_empty() {
                    self.shared.remove(list);
                    self.bury(class);
                }
            }
            Holders::One(_) | Holders::Dead => self.bury(class),
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
        let Scratch { probes, slots, accesses, finer, picked, maybe, candidates } = scratch;
        *candidates = 0;
        let mut several = false;
        let mut decide = |class: &Class, start: u32| {
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
            maybe.clear();
            delta.scan(slots, picked, maybe);
            forget(event, &delta.slotter, slots);
            *candidates += maybe.len();
            decide_all(&delta.classes, maybe, &mut decide);
        }
        for segment in &parts.segments {
            prepare(event, probes, &segment.slotter, slots);
            find_accesses(event, probes, segment, accesses);
            maybe.clear();
            let slot_of = |cuts: &Cuts| cuts.of_probe(&probes[cuts.attr as usize]);
            segment.scan(slots, accesses, slot_of, finer, picked, maybe);
            forget(event, &segment.slotter, slots);
            *candidates += maybe.len();
            decide_all(&segment.classes, maybe, &mut decide);
        }
        for (attr, _) in event {
            probes[*attr as usize] = ABSENT;
        }
        put_in_order(found, from, several);
    }

    /// Appends the ids whose filters cover a filter to `found`, in ascending order.
    pub fn covering(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let question = Question::new(form, &self.names, &self.texts);
        if question.is_empty() {
            return self.among_all(found, |_, _| true);
        }
        let from = found.len();
        let Self {
            texts, shared, scratch: Scratch { slots, accesses, finer, picked, maybe, .. }, delta, parts, ..
        } = self;
        let mut decide = |class: &Class, _: u32| {
            if !class.is_dead() && question.is_covered_by(class, texts) {
                push_holders(class, shared, found);
            }
        };
        for delta in parts.deltas.iter().map(|delta| &**delta).chain([&*delta]) {
            ask(&question, &delta.slotter, slots);
            maybe.clear();
            delta.scan(slots, picked, maybe);
            decide_all(&delta.classes, maybe, &mut decide);
        }
        for segment in &parts.segments {
            ask(&question, &segment.slotter, slots);
            accesses.clear();
            question.accesses(&segment.slotter, accesses);
            maybe.clear();
            segment.scan(slots, accesses, |cuts| question.slot(cuts), finer, picked, maybe);
            decide_all(&segment.classes, maybe, &mut decide);
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
        self.class_of.remove(hash_tests(class.tests()), |&other| other == at).expect("a living class is found");
        self.class_count -= 1;
        self.conjunctions -= class.starts().count();
        self.release(class.tests(), class.rich());
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
            State::Number if by & BY_NUMBER != 0 && probe.low == probe.high => {
                accesses.push(Access::Number(local, probe.low));
            }
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
    sort_ids(&mut found[from..]);
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
