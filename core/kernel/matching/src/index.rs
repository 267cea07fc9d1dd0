//! The index: a table of classes, and the parts in which their conjunctions are found.
//!
//! New conjunctions go into the delta. When it is full it is frozen, and merged with segments of similar size in
//! another thread; the resulting segment replaces them between two calls. Removing a filter marks its class dead, and
//! merging drops it.

use std::sync::Arc;

use crate::attribute_test::{ABSENT, Event, Interning, Kind, LAST, Probe, State, Test, test_of};
use crate::class::{Class, Holders, hash_tests};
use crate::class_changes::Changes;
use crate::covering::Form;
use crate::delta::Delta;
use crate::filter_texts::FilterTexts;
use crate::id_sort::sort_ids;
use crate::merge_worker::{GiveBack, Parts, Worker};
use crate::segment::{Access, BY_ANY, BY_NUMBER, BY_TEXT, Found, Segment};
use crate::slab::{Ids, Place, Sharded, Slab};
use crate::slots::{Hull, Slots, Slotter};
use crate::text_pool::{NONE, Pool};

/// Ids are below this.
pub const IDS_MAX: u64 = 1 << 63;

/// The misuse of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// It was added twice.
    Taken,
    /// It was removed without being in the index.
    Unknown,
    /// It is not below [`IDS_MAX`].
    OutOfRange,
}

/// Statistics of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Number of ids.
    pub filters: usize,
    /// Number of different filters.
    pub classes: usize,
    /// Segments.
    pub segments: usize,
    /// Conjunctions in segments.
    pub in_segments: usize,
    /// Conjunctions that wait to be merged.
    pub waiting: usize,
    /// Merges done.
    pub merges: u64,
    /// Candidates that the last match tested.
    pub candidates: usize,
}

/// Filters under ids.
pub struct Index {
    pub(crate) names: Pool,
    pub(crate) texts: Pool,
    pub(crate) classes: Slab<Arc<Class>>,
    pub(crate) class_of: Sharded<u32>,
    class_count: usize,
    pub(crate) shared: Slab<Vec<u64>>,
    ids: Ids,
    filter_texts: FilterTexts,
    pub(crate) conjunctions: usize,
    pub(crate) delta: Delta,
    pub(crate) parts: Parts,
    /// The parts that are being merged, and the changed classes since the merge began.
    pub(crate) merging: Option<(Parts, Changes)>,
    pub(crate) worker: Option<Worker>,
    pub(crate) give_back: GiveBack,
    pub(crate) merges: u64,
    /// Set if something was added, removed or merged since the last check whether a merge is due.
    pub(crate) changed: bool,
    pub(crate) scratch: Scratch,
}

/// Scratch space of matching. Between calls, all slots and all probes are those of absence.
#[derive(Default)]
pub(crate) struct Scratch {
    probes: Vec<Probe>,
    pub(crate) slots: Slots,
    pub(crate) accesses: Vec<Access>,
    pub(crate) finer: Slots,
    pub(crate) picked: Vec<u32>,
    pub(crate) found: Found,
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
        Self::giving_back(|| {})
    }

    /// The empty index, which calls `give_back` after it freed much memory.
    #[must_use]
    pub fn giving_back(give_back: GiveBack) -> Self {
        Self {
            give_back,
            names: Pool::default(),
            texts: Pool::default(),
            classes: Slab::default(),
            class_of: Sharded::default(),
            class_count: 0,
            shared: Slab::default(),
            ids: Ids::default(),
            filter_texts: FilterTexts::default(),
            conjunctions: 0,
            delta: Delta::new(None),
            parts: Parts::default(),
            merging: None,
            worker: None,
            merges: 0,
            changed: false,
            scratch: Scratch::default(),
        }
    }

    /// Number of ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no ids.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an id is in the index.
    #[must_use]
    pub fn contains(&self, id: u64) -> bool {
        self.ids.find(id).is_some()
    }

    /// Returns the text of the filter under an id, which is empty if it was stored without.
    ///
    /// # Errors
    /// The id is unknown.
    pub fn text(&self, id: u64) -> Result<String, Misuse> {
        let place = self.ids.find(id).ok_or(Misuse::Unknown)?;
        Ok(self.filter_texts.text(place.class, id))
    }

    /// Returns the number of an attribute in events, or None if no filter constrains it.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<u32> {
        Some(self.names.find(name)).filter(|&id| id != NONE)
    }

    /// Returns statistics.
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

    /// Stores a filter under an id, without its text.
    ///
    /// # Errors
    /// The id is taken or too large.
    pub fn add(&mut self, id: u64, form: &Form) -> Result<(), Misuse> {
        self.add_with_text(id, form, "")
    }

    /// Stores a filter under an id, with its text for [`Self::text`].
    ///
    /// # Errors
    /// The id is taken or too large.
    pub fn add_with_text(&mut self, id: u64, form: &Form, text: &str) -> Result<(), Misuse> {
        if id >= IDS_MAX {
            return Err(Misuse::OutOfRange);
        }
        if self.contains(id) {
            return Err(Misuse::Taken);
        }
        let (tests, rich) = self.encode(form);
        let hash = hash_tests(&tests);
        let classes = &self.classes;
        let known = self.class_of.find(hash, |&class| classes.get(class).has_tests(&tests, &rich));
        if let Some(&class) = known {
            self.release(&tests, &rich);
            self.join(id, class);
            self.filter_texts.add_id(class, id, text);
        } else {
            let class = Class::new(&tests, rich, id);
            self.conjunctions += form.0.len();
            self.class_count += 1;
            let number = self.classes.insert(Arc::clone(&class));
            self.place(&class, number, form.0.len());
            self.filter_texts.add_class(number, text);
            let class = number;
            let classes = &self.classes;
            self.class_of.insert(hash, class, |&class| hash_tests(classes.get(class).tests()));
            self.ids.insert(Place { id, class, at: 0 });
        }
        self.changed = true;
        self.maintain();
        Ok(())
    }

    /// Removes an id.
    ///
    /// # Errors
    /// The id is unknown.
    pub fn remove(&mut self, id: u64) -> Result<(), Misuse> {
        let Place { class, at, .. } = self.ids.remove(id).ok_or(Misuse::Unknown)?;
        self.filter_texts.remove_id(id);
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
                    self.drop_class(class);
                }
            }
            Holders::One(_) | Holders::Dead => self.drop_class(class),
        }
        self.changed = true;
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
        let Scratch { probes, slots, accesses, finer, picked, found: scanned, candidates } = scratch;
        scanned.certain = std::mem::take(found);
        *candidates = 0;
        let mut several = false;
        let mut decide = |class: &Class, start: u32, found: &mut Vec<u64>| {
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
            delta.scan(slots, picked, scanned);
            forget(event, &delta.slotter, slots);
            *candidates += scanned.maybe.len();
            scanned.decide_all(&delta.classes, &mut decide);
        }
        for segment in &parts.segments {
            prepare(event, probes, &segment.slotter, slots);
            find_accesses(event, probes, segment, accesses);
            let fill = |slots: &mut Slots, slotter: &Slotter| {
                slots.make_room(slotter.len());
                for (local, cuts) in slotter.cuts.iter().enumerate().skip(1) {
                    slots.put(local, cuts.place(&probes[cuts.attr as usize]));
                }
            };
            segment.scan(slots, accesses, fill, finer, picked, scanned);
            forget(event, &segment.slotter, slots);
            *candidates += scanned.maybe.len();
            scanned.decide_all(&segment.classes, &mut decide);
        }
        *found = std::mem::take(&mut scanned.certain);
        for (attr, _) in event {
            probes[*attr as usize] = ABSENT;
        }
        sort_found(found, from, several);
    }

    /// Waits until all conjunctions are merged into one segment, and the merged parts are freed.
    pub fn settle(&mut self) {
        loop {
            self.await_merge();
            let dead = self.in_segments() + self.waiting() > self.conjunctions;
            if self.waiting() == 0 && self.parts.segments.len() <= 1 && !dead {
                return self.worker.iter().for_each(Worker::rest);
            }
            self.freeze();
            let all = self.parts.clone();
            self.start_merge(all);
        }
    }

    // --- classes ----------------------------------------------------------------------------------------------------

    /// Encodes a filter as tests, and adds references to its names and texts.
    fn encode(&mut self, form: &Form) -> (Vec<Test>, Vec<crate::attribute_test::Rich>) {
        let mut tests = Vec::with_capacity(form.0.iter().map(|conjunction| conjunction.len().max(1)).sum());
        let mut rich = Vec::new();
        for conjunction in &form.0 {
            let from = tests.len();
            for (name, constraint) in conjunction {
                let attr = self.names.intern(name);
                tests.push(test_of(attr, constraint, &mut rich, &mut Interning(&mut self.texts)));
            }
            if conjunction.is_empty() {
                tests.push(Test { attr: 0, kind: Kind::Always, flags: 0, low: 0, high: 0 });
            }
            tests[from..].sort_by_key(|test| test.attr);
            tests.last_mut().expect("one at least").flags |= LAST;
        }
        (tests, rich)
    }

    /// Drops the references to the names and texts of some tests.
    fn release<'a>(&mut self, tests: impl IntoIterator<Item = &'a Test>, rich: &[crate::attribute_test::Rich]) {
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

    /// Adds an id to a class.
    fn join(&mut self, id: u64, class: u32) {
        let at = match self.classes.get(class).holders() {
            Holders::One(first) => {
                self.note_change(class);
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

    /// Removes a class without holders from the table. An equal filter added later gets a new class.
    fn drop_class(&mut self, at: u32) {
        let class = self.classes.remove(at);
        class.set_holders(Holders::Dead);
        self.note_change(at);
        self.class_of.remove(hash_tests(class.tests()), |&other| other == at).expect("a living class is found");
        self.class_count -= 1;
        self.conjunctions -= class.starts().count();
        self.release(class.tests(), class.rich());
        self.filter_texts.remove_class(at);
    }
}

/// The slots of an event's values.
#[inline]
fn prepare(event: &Event<'_>, probes: &[Probe], slotter: &Slotter, slots: &mut Slots) {
    slots.make_room(slotter.len());
    for (attr, _) in event {
        let local = usize::from(slotter.local(*attr));
        if local != 0 {
            slots.put(local, slotter.cuts[local].place(&probes[*attr as usize]));
        }
    }
}

#[inline]
fn forget(event: &Event<'_>, slotter: &Slotter, slots: &mut Slots) {
    for (attr, _) in event {
        slots.put(usize::from(slotter.local(*attr)), (Hull::ABSENT, Hull::ABSENT.low));
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

/// Sorts the ids found from `from` on; `several` if ids may have been found twice.
#[inline]
pub(crate) fn sort_found(found: &mut Vec<u64>, from: usize, several: bool) {
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
