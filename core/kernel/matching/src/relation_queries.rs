//! Queries about filters: those that cover one, those that it covers, and those that it intersects. Candidates come
//! from the same rows and runs as for events; `covering` decides.

use crate::class::{Class, Holders, hash_tests};
use crate::covering::{Form, QueriedFilter};
use crate::index::{Index, Scratch, sort_found};
use crate::slab::Slab;
use crate::slots::{Hull, Slots, Slotter};
use crate::text_pool::Pool;

/// A filter with more alternatives is compared with every class, because each alternative needs a scan of its own.
const ALTERNATIVES_MAX: usize = 16;

impl Index {
    /// Appends the ids whose filters cover a filter to `found`, in ascending order.
    pub fn covering(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let queried = QueriedFilter::new(form, &self.names, &self.texts);
        if queried.alternatives() == 0 {
            return self.scan_all(found, |_, _| true);
        }
        let from = found.len();
        let Self { texts, shared, scratch, delta, parts, .. } = self;
        let Scratch { slots, accesses, finer, picked, found: scanned, .. } = scratch;
        scanned.certain = std::mem::take(found);
        let mut decide = |class: &Class, _: u32, found: &mut Vec<u64>| {
            if !class.is_dead() && queried.is_covered_by(class, texts) {
                push_holders(class, shared, found);
            }
        };
        let fill = |slots: &mut Slots, slotter: &Slotter| {
            slots.clear(Hull::UNKNOWN, slotter.len());
            queried.ends(0, slotter, |local, hull| slots.hulls[local] = hull);
        };
        for delta in parts.deltas.iter().map(|delta| &**delta).chain([&*delta]) {
            fill(slots, &delta.slotter);
            delta.scan(slots, picked, scanned);
            scanned.decide_all(&delta.classes, &mut decide);
        }
        for segment in &parts.segments {
            fill(slots, &segment.slotter);
            accesses.clear();
            queried.accesses(&segment.slotter, accesses);
            segment.scan(slots, accesses, fill, finer, picked, scanned);
            scanned.decide_all(&segment.classes, &mut decide);
        }
        *found = std::mem::take(&mut scanned.certain);
        slots.clear(Hull::ABSENT, 0);
        sort_found(found, from, true);
    }

    /// Appends the ids whose filters a filter covers to `found`, in ascending order.
    pub fn covered(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let queried = QueriedFilter::new(form, &self.names, &self.texts);
        let from = found.len();
        // It intersects all filters that it covers, except those that no event satisfies.
        let classes = &self.classes;
        let empty = self.class_of.find(hash_tests(&[]), |&class| classes.get(class).tests().is_empty());
        if let Some(&class) = empty {
            push_holders(self.classes.get(class), &self.shared, found);
        }
        self.scan_intersecting(&queried, true, found, |class, texts| queried.covers(class, texts));
        sort_found(found, from, true);
    }

    /// Appends the ids whose filters intersect a filter to `found`, in ascending order.
    pub fn intersecting(&mut self, form: &Form, found: &mut Vec<u64>) {
        self.maintain();
        let queried = QueriedFilter::new(form, &self.names, &self.texts);
        let from = found.len();
        self.scan_intersecting(&queried, false, found, |class, texts| queried.intersects(class, texts));
        sort_found(found, from, true);
    }

    /// Appends the holders of the classes that pass `accepts`, among those that a filter intersects. With `within`, only
    /// classes that constrain every attribute that the filter does. Some may be appended several times.
    fn scan_intersecting(
        &mut self,
        queried: &QueriedFilter,
        within: bool,
        found: &mut Vec<u64>,
        accepts: impl Fn(&Class, &Pool) -> bool,
    ) {
        if queried.alternatives() > ALTERNATIVES_MAX {
            return self.scan_all(found, accepts);
        }
        let Self { texts, shared, scratch: Scratch { slots, finer, found: scanned, .. }, delta, parts, .. } = self;
        scanned.certain = std::mem::take(found);
        let mut decide = |class: &Class, _: u32, found: &mut Vec<u64>| {
            if !class.is_dead() && accepts(class, texts) {
                push_holders(class, shared, found);
            }
        };
        for alternative in 0..queried.alternatives() {
            let fill = |slots: &mut Slots, slotter: &Slotter| {
                slots.clear(Hull::ANY, slotter.len());
                queried.ends(alternative, slotter, |local, hull| slots.hulls[local] = hull.swapped());
            };
            for delta in parts.deltas.iter().map(|delta| &**delta).chain([&*delta]) {
                fill(slots, &delta.slotter);
                delta.matrix.scan_intersecting(slots, within, scanned);
                scanned.decide_all(&delta.classes, &mut decide);
            }
            for segment in &parts.segments {
                fill(slots, &segment.slotter);
                let leads = |access| queried.leads_to(alternative, &segment.slotter, access);
                segment.scan_intersecting(slots, within, leads, fill, finer, scanned);
                scanned.decide_all(&segment.classes, &mut decide);
            }
        }
        *found = std::mem::take(&mut scanned.certain);
        slots.clear(Hull::ABSENT, 0);
    }

    fn scan_all(&self, found: &mut Vec<u64>, accepts: impl Fn(&Class, &Pool) -> bool) {
        let from = found.len();
        for class in self.classes.values().filter(|class| accepts(class, &self.texts)) {
            push_holders(class, &self.shared, found);
        }
        sort_found(found, from, false);
    }
}

fn push_holders(class: &Class, shared: &Slab<Vec<u64>>, found: &mut Vec<u64>) {
    match class.holders() {
        Holders::One(id) => found.push(id),
        Holders::Shared(list) => found.extend_from_slice(shared.get(list)),
        Holders::Dead => {}
    }
}
