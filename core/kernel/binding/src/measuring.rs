//! How long the kernel takes by itself: for benchmarks, which measure it from Python too.

#![expect(clippy::needless_pass_by_value, reason = "PyO3 gives lists as vectors")]

use std::time::Instant;

use plait_matching::constraint::Value;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::forms::form_of;
use crate::index::{Index, Known, State, event, known, misuse};
use crate::splitter::{Splitter, with_bytes};

/// Nanoseconds that matching each event takes, Python and its objects left out, and how many ids are found.
#[pyfunction]
pub(crate) fn measure_match(index: &Bound<'_, Index>, events: Vec<Bound<'_, PyDict>>) -> PyResult<Vec<(u64, usize)>> {
    let mut state = index.get().lock(index.py());
    let State { matching, found } = &mut *state;
    let known: Vec<Known<'_>> = events.iter().map(|attributes| known(matching, attributes)).collect::<PyResult<_>>()?;
    let events: Vec<Vec<(u32, Value<'_>)>> = known.iter().map(|known| event(known)).collect::<PyResult<_>>()?;
    let measured = events.iter().map(|event| {
        found.clear();
        let took = nanoseconds(|| matching.matches(event, found));
        (took.1, found.len())
    });
    Ok(measured.collect())
}

/// Nanoseconds that finding the filters that cover each of these takes, and how many there are.
#[pyfunction]
pub(crate) fn measure_covering(
    index: &Bound<'_, Index>,
    filters: Vec<Bound<'_, PyAny>>,
) -> PyResult<Vec<(u64, usize)>> {
    let forms = filters.iter().map(form_of).collect::<PyResult<Vec<_>>>()?;
    let mut state = index.get().lock(index.py());
    let State { matching, found } = &mut *state;
    let measured = forms.iter().map(|form| {
        found.clear();
        let took = nanoseconds(|| matching.covering(form, found));
        (took.1, found.len())
    });
    Ok(measured.collect())
}

/// Adds filters, and gives back the nanoseconds that each took.
#[pyfunction]
pub(crate) fn measure_add(
    index: &Bound<'_, Index>,
    ids: Vec<u64>,
    filters: Vec<Bound<'_, PyAny>>,
) -> PyResult<Vec<u64>> {
    let forms = filters.iter().map(form_of).collect::<PyResult<Vec<_>>>()?;
    let mut state = index.get().lock(index.py());
    let measured = ids.iter().zip(&forms).map(|(&id, form)| {
        let (done, took) = nanoseconds(|| state.matching.add(id, form));
        done.map(|()| took).map_err(|what| misuse(what, id))
    });
    measured.collect()
}

/// Removes ids, and gives back the nanoseconds that each took.
#[pyfunction]
pub(crate) fn measure_remove(index: &Bound<'_, Index>, ids: Vec<u64>) -> PyResult<Vec<u64>> {
    let mut state = index.get().lock(index.py());
    let measured = ids.iter().map(|&id| {
        let (done, took) = nanoseconds(|| state.matching.remove(id));
        done.map(|()| took).map_err(|what| misuse(what, id))
    });
    measured.collect()
}

/// Nanoseconds that splitting and matching a buffer takes, and how many frames there are.
#[pyfunction]
pub(crate) fn measure_match_many(
    index: &Bound<'_, Index>,
    buffer: &Bound<'_, PyAny>,
    splitter: &Bound<'_, Splitter>,
) -> PyResult<(u64, usize)> {
    let mut state = index.get().lock(index.py());
    with_bytes(buffer, |bytes| {
        let (matches, took) = nanoseconds(|| state.matching.match_many(bytes, &splitter.get().frames));
        (took, matches.frames.len())
    })
}

fn nanoseconds<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let start = Instant::now();
    let done = work();
    (done, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
