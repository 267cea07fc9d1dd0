//! The frame splitter.

use plait_matching::wire::frames::{Frame, Number, Splitter as Frames};
use plait_matching::wire::{Limits, Refusal};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// Split buffers into the frames of one protocol version, after the handshake.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct Splitter {
    pub(crate) frames: Frames,
}

#[pymethods]
impl Splitter {
    /// `controls` has the number of each control frame, whether it belongs to the handshake, and whether it is a Close.
    #[new]
    fn new(limits: &Bound<'_, PyAny>, version: u8, controls: Vec<(u8, bool, bool)>) -> PyResult<Self> {
        let controls: Vec<(u8, Number)> = controls
            .into_iter()
            .map(|(number, opening, close)| match (opening, close) {
                (true, _) => (number, Number::Opening),
                (_, true) => (number, Number::Close),
                _ => (number, Number::Control),
            })
            .collect();
        Ok(Self { frames: Frames::new(limits_of(limits)?, version, &controls) })
    }

    /// Split the frames at the start of a buffer. Return the frames as (type, start, body, end), the number of bytes
    /// that they take up, and the refusal of the next frame as (fault, message), or None.
    fn split<'py>(&self, py: Python<'py>, buffer: &Bound<'py, PyAny>) -> PyResult<Split<'py>> {
        let mut found = Vec::new();
        let mut taken = 0;
        let refusal = with_bytes(buffer, |bytes| {
            loop {
                match self.frames.next(bytes, taken) {
                    Ok(Some(frame)) => {
                        taken = frame.end;
                        found.push(frame);
                    }
                    Ok(None) => return None,
                    Err(refusal) => return Some(refusal),
                }
            }
        })?;
        let frames = found.iter().map(|frame| frame_tuple(py, frame));
        let frames = PyList::new(py, frames.collect::<PyResult<Vec<_>>>()?)?;
        Ok((frames, taken, refusal.map(refusal_pair)))
    }
}

/// Frames, the number of bytes that they take up, and a refusal.
pub(crate) type Split<'py> = (Bound<'py, PyList>, usize, Option<(&'static str, String)>);

fn frame_tuple<'py>(py: Python<'py>, frame: &Frame) -> PyResult<Bound<'py, PyTuple>> {
    (frame.number, frame.start, frame.body, frame.end).into_pyobject(py)
}

pub(crate) fn refusal_pair(refusal: Refusal) -> (&'static str, String) {
    (refusal.fault.name(), refusal.message)
}

/// Calls `work` with the bytes of a buffer: without a copy if the buffer is immutable, else with a copy.
pub(crate) fn with_bytes<R>(buffer: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    if let Ok(bytes) = buffer.cast::<PyBytes>() {
        return Ok(work(bytes.as_bytes()));
    }
    let copied = pyo3::buffer::PyBuffer::<u8>::get(buffer)?.to_vec(buffer.py())?;
    Ok(work(&copied))
}

/// `plait_core.limits.WireLimits`.
pub(crate) fn limits_of(given: &Bound<'_, PyAny>) -> PyResult<Limits> {
    let py = given.py();
    let event = given.getattr(intern!(py, "event"))?;
    let frame = |name: &str| given.getattr(name)?.extract::<usize>();
    let event = |name: &str| event.getattr(name)?.extract::<usize>();
    Ok(Limits {
        frame_bytes: frame("frame_bytes_max")?,
        destinations: frame("destinations_max")?,
        path: frame("path_max")?,
        deliveries: frame("deliveries_max")?,
        attributes: event("attributes_max")?,
        name_bytes: event("name_bytes_max")?,
        value_bytes: event("value_bytes_max")?,
        int_bits: event("int_bits_max")?,
        list_items: event("list_items_max")?,
        attributes_bytes: event("attributes_bytes_max")?,
        headers_bytes: event("headers_bytes_max")?,
        payload_bytes: event("payload_bytes_max")?,
    })
}
