//! The index, behind a lock.
//!
//! A thread never waits for the lock while it has the interpreter. While it has the lock, it makes and calls no Python
//! objects: making an object may collect garbage, whose finalisers may query this very index.

// These doc comments are docstrings of Python, in its notation.
#![expect(clippy::doc_markdown, reason = "docstrings")]

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};

use plait_matching::constraint::Value;
use plait_matching::wire::frames::{FORWARD, PUBLISH};
use plait_matching::{IDS_MAX, Index as Matching, Matches, Misuse};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyDict, PyInt, PyList, PyString};

use crate::event_frames::EventFrame;
use crate::freed_memory::give_back;
use crate::normal_form::form_of;
use crate::splitter::{Split, Splitter, refusal_pair, with_bytes};
use crate::values::value_of;

pyo3::import_exception!(plait_core.errors, IndexMisuse);

/// Filters under ids (0 to 2**63 - 1). Results are exact, without duplicates, and in ascending order.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct Index {
    matching: Mutex<Matching>,
}

/// An event from Python: names and values, which are kept alive here.
pub(crate) type Attributes<'py> = Vec<(Bound<'py, PyString>, Bound<'py, PyAny>)>;

#[pymethods]
impl Index {
    #[new]
    fn new() -> Self {
        Self { matching: Mutex::new(Matching::giving_back(give_back)) }
    }

    /// Store `filter` under `id`. Raise IndexMisuse if the id is taken, FilterTooComplex if the filter is.
    fn add(&self, id: &Bound<'_, PyInt>, filter: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = id.extract::<u64>().unwrap_or(IDS_MAX);
        if self.lock(id.py()).contains(number) {
            return Err(misuse(Misuse::Taken, id));
        }
        let form = form_of(filter)?;
        let text = filter.getattr(intern!(id.py(), "text"))?.cast_into::<PyString>()?;
        let text = text.to_str()?;
        let done = self.lock(id.py()).add_with_text(number, &form, text);
        done.map_err(|what| misuse(what, id))
    }

    /// Remove `id`; raise IndexMisuse if it is unknown.
    fn remove(&self, id: &Bound<'_, PyInt>) -> PyResult<()> {
        let number = id.extract::<u64>().unwrap_or(IDS_MAX);
        let done = self.lock(id.py()).remove(number);
        done.map_err(|what| misuse(what, id))
    }

    /// Return the text of the filter under `id`; raise IndexMisuse if the id is unknown.
    fn text(&self, id: &Bound<'_, PyInt>) -> PyResult<String> {
        let number = id.extract::<u64>().unwrap_or(IDS_MAX);
        let found = self.lock(id.py()).text(number);
        found.map_err(|what| misuse(what, id))
    }

    /// Return the ids whose filters are true of plain attributes.
    #[pyo3(name = "match")]
    fn matches<'py>(&self, py: Python<'py>, attributes: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
        let attributes = attributes_of(attributes)?;
        let values = values_of(&attributes)?;
        let mut found = Vec::new();
        {
            let mut matching = self.lock(py);
            let event = event_of(&matching, values);
            matching.matches(&event, &mut found);
        }
        PyList::new(py, found)
    }

    /// Match the attributes of a frame without decoding them for Python. Raise FrameError if they are invalid.
    fn match_frame<'py>(&self, frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = frame.py();
        let Ok(event_frame) = frame.cast::<EventFrame>().map(Bound::get) else {
            let attributes = frame.call_method0(intern!(py, "attributes"))?;
            return self.matches(py, attributes.cast::<PyDict>()?);
        };
        let mut event = Vec::with_capacity(8);
        let mut found = Vec::new();
        let read = {
            let mut matching = self.lock(py);
            let read = matching.read_event(event_frame.packed(py), &event_frame.limits, &mut event);
            if read.is_ok() {
                matching.matches(&event, &mut found);
            }
            read
        };
        match read {
            Ok(()) => PyList::new(py, found),
            Err(_) => self.matches(py, &event_frame.attributes(py)?),
        }
    }

    /// Return the ids whose filters cover `filter` (as `Filter.covers` decides).
    fn covering<'py>(&self, filter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let form = form_of(filter)?;
        self.ask(filter.py(), |matching, found| matching.covering(&form, found))
    }

    /// Return the ids whose filters `filter` covers.
    fn covered<'py>(&self, filter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let form = form_of(filter)?;
        self.ask(filter.py(), |matching, found| matching.covered(&form, found))
    }

    /// Return the ids whose filters intersect `filter` (as `Filter.intersects` decides).
    fn intersecting<'py>(&self, filter: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let form = form_of(filter)?;
        self.ask(filter.py(), |matching, found| matching.intersecting(&form, found))
    }

    /// Split and match the frames at the start of a buffer. Return three values: the frames as (type, start, body, end,
    /// ids), where ids are the matches of a publish or forward frame, and None in others; the number of bytes that the
    /// frames take up; and the refusal of the next frame as (fault, message), or None.
    fn match_many<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        splitter: &Bound<'py, Splitter>,
    ) -> PyResult<Split<'py>> {
        let frames = &splitter.get().frames;
        let Matches { frames, ids, taken, refusal } =
            with_bytes(buffer, |bytes| py.detach(|| self.lock_detached().match_many(bytes, frames)))?;
        let mut from = 0;
        let rows = frames.iter().map(|&(frame, to)| {
            let of_frame = &ids[std::mem::replace(&mut from, to)..to];
            let routed = matches!(frame.number, PUBLISH | FORWARD);
            let of_frame = routed.then(|| PyList::new(py, of_frame)).transpose()?;
            (frame.number, frame.start, frame.body, frame.end, of_frame).into_pyobject(py)
        });
        let rows = PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)?;
        Ok((rows, taken, refusal.map(refusal_pair)))
    }

    /// Wait until all added filters are merged into segments. Results do not depend on it.
    fn settle(&self, py: Python<'_>) {
        py.detach(|| self.lock_detached().settle());
    }

    /// Return statistics of the index: filters, classes of equal filters, segments, conjunctions in and outside them,
    /// merges, and candidates that the last match tested.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.lock(py).stats();
        let found = PyDict::new(py);
        found.set_item("filters", stats.filters)?;
        found.set_item("classes", stats.classes)?;
        found.set_item("segments", stats.segments)?;
        found.set_item("in_segments", stats.in_segments)?;
        found.set_item("waiting", stats.waiting)?;
        found.set_item("merges", stats.merges)?;
        found.set_item("candidates", stats.candidates)?;
        Ok(found)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.lock(py).len()
    }

    fn __contains__(&self, id: &Bound<'_, PyAny>) -> bool {
        id.extract::<u64>().is_ok_and(|number| self.lock(id.py()).contains(number))
    }
}

impl Index {
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Matching> {
        self.matching.lock_py_attached(py).expect("no call has panicked")
    }

    fn lock_detached(&self) -> MutexGuard<'_, Matching> {
        self.matching.lock().expect("no call has panicked")
    }

    fn ask<'py>(
        &self,
        py: Python<'py>,
        query: impl FnOnce(&mut Matching, &mut Vec<u64>) + Send,
    ) -> PyResult<Bound<'py, PyList>> {
        let found = py.detach(|| {
            let mut found = Vec::new();
            query(&mut self.lock_detached(), &mut found);
            found
        });
        PyList::new(py, found)
    }
}

pub(crate) fn attributes_of<'py>(given: &Bound<'py, PyDict>) -> PyResult<Attributes<'py>> {
    let mut attributes = Vec::with_capacity(given.len());
    for (name, value) in given.iter() {
        let name = name.cast_into::<PyString>().map_err(|_| PyTypeError::new_err("names of attributes are texts"))?;
        attributes.push((name, value));
    }
    Ok(attributes)
}

pub(crate) fn values_of<'a>(attributes: &'a Attributes<'_>) -> PyResult<Vec<(&'a str, Value<'a>)>> {
    attributes.iter().map(|(name, value)| Ok((name.to_str()?, value_of(value)?))).collect()
}

/// Keeps the attributes of an event that filters constrain.
pub(crate) fn event_of<'a>(matching: &Matching, values: Vec<(&str, Value<'a>)>) -> Vec<(u32, Value<'a>)> {
    values.into_iter().filter_map(|(name, value)| Some((matching.attribute(name)?, value))).collect()
}

pub(crate) fn misuse(what: Misuse, id: impl Display) -> PyErr {
    IndexMisuse::new_err(match what {
        Misuse::Taken => format!("id {id} is in the index already"),
        Misuse::Unknown => format!("id {id} is not in the index"),
        Misuse::OutOfRange => format!("id {id} is not from 0 to 2**63 - 1"),
    })
}
