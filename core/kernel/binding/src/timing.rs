//! Measures the kernel's own time, for benchmarks, which also measure it from Python.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 gives lists as vectors")]

use std::time::Instant;

use plait_matching::constraint::Value;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::index::{Attributes, Index, attributes_of, event_of, misuse, values_of};
use crate::normal_form::form_of;
use crate::splitter::{Splitter, with_bytes};

/// Return nanoseconds of matching each event, without Python and its objects, and the number of ids found.
#[pyfunction]
pub(crate) fn measure_match(index: &Bound<'_, Index>, events: Vec<Bound<'_, PyDict>>) -> PyResult<Vec<(u64, usize)>> {
    let attributes: Vec<Attributes<'_>> = events.iter().map(attributes_of).collect::<PyResult<_>>()?;
    let values: Vec<_> = attributes.iter().map(values_of).collect::<PyResult<_>>()?;
    let mut matching = index.get().lock(index.py());
    let events: Vec<Vec<(u32, Value<'_>)>> = values.into_iter().map(|values| event_of(&matching, values)).collect();
    let mut found = Vec::new();
    let measured = events.iter().map(|event| {
        found.clear();
        let took = nanoseconds(|| matching.matches(event, &mut found));
        (took.1, found.len())
    });
    Ok(measured.collect())
}

/// Return nanoseconds of finding the filters that cover each of these, and the number of ids found.
#[pyfunction]
pub(crate) fn measure_covering(
    index: &Bound<'_, Index>,
    filters: Vec<Bound<'_, PyAny>>,
) -> PyResult<Vec<(u64, usize)>> {
    let forms = filters.iter().map(form_of).collect::<PyResult<Vec<_>>>()?;
    let mut matching = index.get().lock(index.py());
    let mut found = Vec::new();
    let measured = forms.iter().map(|form| {
        found.clear();
        let took = nanoseconds(|| matching.covering(form, &mut found));
        (took.1, found.len())
    });
    Ok(measured.collect())
}

/// Add filters, and return the nanoseconds that each took.
#[pyfunction]
pub(crate) fn measure_add(
    index: &Bound<'_, Index>,
    ids: Vec<u64>,
    filters: Vec<Bound<'_, PyAny>>,
) -> PyResult<Vec<u64>> {
    let forms = filters.iter().map(form_of).collect::<PyResult<Vec<_>>>()?;
    let mut matching = index.get().lock(index.py());
    let measured = ids.iter().zip(&forms).map(|(&id, form)| {
        let (done, took) = nanoseconds(|| matching.add(id, form));
        done.map(|()| took).map_err(|what| misuse(what, id))
    });
    measured.collect()
}

/// Remove ids, and return the nanoseconds that each took.
#[pyfunction]
pub(crate) fn measure_remove(index: &Bound<'_, Index>, ids: Vec<u64>) -> PyResult<Vec<u64>> {
    let mut matching = index.get().lock(index.py());
    let measured = ids.iter().map(|&id| {
        let (done, took) = nanoseconds(|| matching.remove(id));
        done.map(|()| took).map_err(|what| misuse(what, id))
    });
    measured.collect()
}

/// Return nanoseconds of splitting and matching a buffer, and the number of frames.
#[pyfunction]
pub(crate) fn measure_match_many(
    index: &Bound<'_, Index>,
    buffer: &Bound<'_, PyAny>,
    splitter: &Bound<'_, Splitter>,
) -> PyResult<(u64, usize)> {
    let mut matching = index.get().lock(index.py());
    with_bytes(buffer, |bytes| {
        let (matches, took) = nanoseconds(|| matching.match_many(bytes, &splitter.get().frames));
        (took, matches.frames.len())
    })
}

fn nanoseconds<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let start = Instant::now();
    let done = work();
    (done, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
