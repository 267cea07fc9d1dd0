//! The index, behind a lock that is taken without ever waiting while Python is held up.

// The documentation of the methods is Python's: its names stand there as Python's readers know them.
#![expect(clippy::doc_markdown, reason = "docstrings")]

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};

use plait_matching::constraint::Value;
use plait_matching::wire::frames::{FORWARD, PUBLISH};
use plait_matching::{IDS_MAX, Index as Matching, Matches, Misuse};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyInt, PyList, PyString};

use crate::forms::form_of;
use crate::splitter::{Split, Splitter, told, with_bytes};
use crate::values::value_of;

pyo3::import_exception!(plait_core.errors, IndexMisuse);

/// Filters under ids (0 to 2**63 - 1). Answers are exact, free of duplicates, and in ascending order.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct Index {
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) matching: Matching,
    pub(crate) found: Vec<u64>,
}

/// Attributes that filters speak of, with their values, which are kept alive here.
pub(crate) type Known<'py> = Vec<(u32, Bound<'py, PyAny>)>;

#[pymethods]
impl Index {
    #[new]
    fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// Keep `filter` under `id`; IndexMisuse when the id is taken, FilterTooComplex as the filter says.
    fn add(&self, id: &Bound<'_, PyInt>, filter: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = id.extract::<u64>().unwrap_or(IDS_MAX);
        if self.lock(id.py()).matching.contains(number) {
            return Err(misuse(Misuse::Taken, id));
        }
        let form = form_of(filter)?;
        let done = self.lock(id.py()).matching.add(number, &form);
        done.map_err(|what| misuse(what, id))
    }

    /// Forget `id`; IndexMisuse when it is not here.
    fn remove(&self, id: &Bound<'_, PyInt>) -> PyResult<()> {
        let number = id.extract::<u64>().unwrap_or(IDS_MAX);
        let done = self.lock(id.py()).matching.remove(number);
        done.map_err(|what| misuse(what, id))
    }

    /// The ids whose filters are true of plain attributes.
    #[pyo3(name = "match")]
    fn matches<'py>(&self, py: Python<'py>, attributes: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
        let mut state = self.lock(py);
        let State { matching, found } = &mut *state;
        let known = known(matching, attributes)?;
        let event = event(&known)?;
        found.clear();
        matching.matches(&event, found);
        PyList::new(py, &*found)
    }

    /// The ids whose filters cover `filter` (as `Filter.covers` decides).
    fn covering<'py>(&self, filter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let form = form_of(filter)?;
        self.ask(filter.py(), |matching, found| matching.covering(&form, found))
    }

    /// The ids whose filters `filter` covers.
    fn covered<'py>(&self, filter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let form = form_of(filter)?;
        self.ask(filter.py(), |matching, found| matching.covered(&form, found))
    }

    /// The ids whose filters intersect `filter` (as `Filter.intersects` decides).
    fn intersecting<'py>(&self, filter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let form = form_of(filter)?;
        self.ask(filter.py(), |matching, found| matching.intersecting(&form, found))
    }

    /// The frames at the start of a buffer as (type, start, body, end, ids), where ids are those that a publish or forward
    /// frame matches, and None in others; the bytes that they take up; and why the next is none: (fault, message), or None.
    fn match_many<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        splitter: &Bound<'py, Splitter>,
    ) -> PyResult<Split<'py>> {
        let frames = &splitter.get().frames;
        let Matches { frames, ids, taken, refusal } = with_bytes(buffer, |bytes| {
            py.detach(|| self.state.lock().expect("no call has panicked").matching.match_many(bytes, frames))
        })?;
        let mut from = 0;
        let rows = frames.iter().map(|&(frame, to)| {
            let of_frame = &ids[std::mem::replace(&mut from, to)..to];
            let routed = matches!(frame.number, PUBLISH | FORWARD);
            let of_frame = routed.then(|| PyList::new(py, of_frame)).transpose()?;
            (frame.number, frame.start, frame.body, frame.end, of_frame).into_pyobject(py)
        });
        let rows = PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?;
        Ok((rows, taken, refusal.map(told)))
    }

    /// Wait until everything that was added is laid out for good. Answers do not depend on it.
    fn settle(&self, py: Python<'_>) {
        py.detach(|| self.state.lock().expect("no call has panicked").matching.settle());
    }

    /// How the index is doing: filters, classes of equal ones, segments, conjunctions in and outside them, merges, and
    /// candidates that the last match looked at.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.lock(py).matching.stats();
        let told = PyDict::new(py);
        told.set_item("filters", stats.filters)?;
        told.set_item("classes", stats.classes)?;
        told.set_item("segments", stats.segments)?;
        told.set_item("in_segments", stats.in_segments)?;
        told.set_item("waiting", stats.waiting)?;
        told.set_item("merges", stats.merges)?;
        told.set_item("candidates", stats.candidates)?;
        Ok(told)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.lock(py).matching.len()
    }

    fn __contains__(&self, id: &Bound<'_, PyAny>) -> bool {
        id.extract::<u64>().is_ok_and(|number| self.lock(id.py()).matching.contains(number))
    }
}

impl Index {
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        self.state.lock_py_attached(py).expect("no call has panicked")
    }

    fn ask<'py>(
        &self,
        py: Python<'py>,
        question: impl FnOnce(&mut Matching, &mut Vec<u64>) + Send,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = py.detach(|| {
            let mut found = Vec::new();
            question(&mut self.state.lock().expect("no call has panicked").matching, &mut found);
            found
        });
        PyList::new(py, found)
    }
}

pub(crate) fn known<'py>(matching: &Matching, attributes: &Bound<'py, PyDict>) -> PyResult<Known<'py>> {
    let mut known = Vec::with_capacity(attributes.len());
    for (name, value) in attributes.iter() {
        let Ok(name) = name.cast::<PyString>() else {
            return Err(PyTypeError::new_err("names of attributes are texts"));
        };
        if let Some(attribute) = matching.attribute(name.to_str()?) {
            known.push((attribute, value));
        }
    }
    Ok(known)
}

pub(crate) fn event<'a>(known: &'a Known<'_>) -> PyResult<Vec<(u32, Value<'a>)>> {
    known.iter().map(|(attribute, value)| Ok((*attribute, value_of(value)?))).collect()
}

pub(crate) fn misuse(what: Misuse, id: impl Display) -> PyErr {
    IndexMisuse::new_err(match what {
        Misuse::Taken => format!("id {id} is in the index already"),
        Misuse::Unknown => format!("id {id} is not in the index"),
        Misuse::OutOfRange => format!("id {id} is not from 0 to 2**63 - 1"),
    })
}
