//! Buffers the outgoing event frames of one connection: events for a client or for the next broker.

use std::sync::Mutex;

use plait_matching::wire::frames::{DELIVER, FORWARD, PREFIX_BYTES};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::event_frames::{EventFrame, Forward};

/// Capacity for the usual routes.
const ROUTE_BYTES: usize = 64;

/// The outgoing bytes of one connection.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct DeliveryWriter {
    out: Mutex<Vec<u8>>,
}

#[pymethods]
impl DeliveryWriter {
    #[new]
    fn new() -> Self {
        Self { out: Mutex::default() }
    }

    /// Write a deliver frame for these (subscription, flags, position). Return the number of bytes buffered.
    fn deliver(
        &self,
        frame: &Bound<'_, PyAny>,
        delay_us: u64,
        path: &Bound<'_, PyTuple>,
        deliveries: &Bound<'_, PyAny>,
        version: u8,
    ) -> PyResult<usize> {
        let mut route = Vec::with_capacity(ROUTE_BYTES);
        route.extend(delay_us.to_be_bytes());
        add_path(&mut route, path, 0)?;
        add_named(&mut route, 10, deliveries, |route, (subscription, flags, position): (u32, u32, u64)| {
            route.extend(subscription.to_be_bytes());
            route.extend(flags.to_be_bytes());
            route.extend(position.to_be_bytes());
        })?;
        self.write(DELIVER, version, &route, block_of(frame)?.as_bytes())
    }

    /// Write a forward frame for these (broker, position, proof). Return the number of bytes buffered.
    #[expect(clippy::too_many_arguments, reason = "the fields of a forward frame")]
    fn forward(
        &self,
        frame: &Bound<'_, PyAny>,
        tree: u64,
        delay_us: u64,
        flags: u8,
        path: &Bound<'_, PyTuple>,
        destinations: &Bound<'_, PyAny>,
        version: u8,
    ) -> PyResult<usize> {
        let mut route = Vec::with_capacity(ROUTE_BYTES);
        route.extend(tree.to_be_bytes());
        route.extend(delay_us.to_be_bytes());
        add_path(&mut route, path, flags)?;
        add_named(&mut route, 18, destinations, |route, (broker, position, proof): (u64, u64, u64)| {
            route.extend(broker.to_be_bytes());
            route.extend(position.to_be_bytes());
            route.extend(proof.to_be_bytes());
        })?;
        self.write(FORWARD, version, &route, block_of(frame)?.as_bytes())
    }

    /// Write forward frames, each from (frame, tree, delay, flags, path, destinations), in order, until `bytes_max`
    /// bytes are buffered. Add `waited_us` to their delays. Return the number of frames written, and of bytes buffered.
    #[pyo3(signature = (copies, version, bytes_max, waited_us = 0))]
    fn forward_all(
        &self,
        copies: &Bound<'_, PyAny>,
        version: u8,
        bytes_max: usize,
        waited_us: u64,
    ) -> PyResult<(usize, usize)> {
        let mut written = 0;
        let mut buffered = self.out.lock().expect("no call has panicked").len();
        for copy in copies.try_iter()? {
            if buffered >= bytes_max {
                break;
            }
            let copy = copy?.cast_into::<PyTuple>()?;
            let (path, to) = (copy.get_item(4)?, copy.get_item(5)?);
            let (tree, delay_us) = (copy.get_item(1)?.extract()?, copy.get_item(2)?.extract::<u64>()?);
            let delay_us = delay_us.saturating_add(waited_us);
            let flags = copy.get_item(3)?.extract()?;
            buffered = self.forward(&copy.get_item(0)?, tree, delay_us, flags, path.cast()?, &to, version)?;
            written += 1;
        }
        Ok((written, buffered))
    }

    /// Write bytes unchanged. Return the number of bytes buffered.
    fn append(&self, data: &[u8]) -> usize {
        let mut out = self.out.lock().expect("no call has panicked");
        out.extend(data);
        out.len()
    }

    /// Return all buffered bytes and empty the buffer.
    fn take<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let taken = std::mem::take(&mut *self.out.lock().expect("no call has panicked"));
        PyBytes::new(py, &taken)
    }
}

/// Return what copies have in common if all are from one root for one destination, with one priority: root, destination,
/// priority, their flags together, the bytes of their blocks, and the brokers on their paths.
#[pyfunction]
pub(crate) fn common_stream(copies: &Bound<'_, PyAny>) -> PyResult<Option<(u64, u64, u8, u8, usize, usize)>> {
    let mut found: Option<(u64, u64, u8, u8, usize, usize)> = None;
    for copy in copies.try_iter()? {
        let copy = copy?.cast_into::<PyTuple>()?;
        let (frame, path, to) = (copy.get_item(0)?, copy.get_item(4)?, copy.get_item(5)?);
        let path = path.cast::<PyTuple>()?;
        if path.is_empty() || to.len()? != 1 || frame_destinations(&frame)? > 1 {
            return Ok(None);
        }
        let root = path.get_item(0)?.extract::<u64>()?;
        let destination = to.get_item(0)?.cast::<PyTuple>()?.get_item(0)?.extract::<u64>()?;
        let (priority, block_bytes) = priority_and_bytes(&frame)?;
        let flags = copy.get_item(3)?.extract::<u8>()?;
        let common = found.get_or_insert((root, destination, priority, 0, 0, 0));
        if (common.0, common.1, common.2) != (root, destination, priority) {
            return Ok(None);
        }
        common.3 |= flags;
        common.4 += block_bytes;
        common.5 += path.len();
    }
    Ok(found)
}

/// Returns how many destinations a frame names itself: those of the copy that arrived.
fn frame_destinations(frame: &Bound<'_, PyAny>) -> PyResult<usize> {
    if let Ok(forward) = frame.cast::<Forward>() {
        return Ok(forward.get().destinations.bind(frame.py()).len());
    }
    if frame.cast::<EventFrame>().is_ok() {
        return Ok(0);
    }
    match frame.getattr_opt(intern!(frame.py(), "destinations"))? {
        Some(destinations) => destinations.len(),
        None => Ok(0),
    }
}

fn priority_and_bytes(frame: &Bound<'_, PyAny>) -> PyResult<(u8, usize)> {
    if let Ok(frame) = frame.cast::<EventFrame>() {
        let frame = frame.get();
        return Ok((frame.priority, frame.bytes));
    }
    let priority = frame.getattr(intern!(frame.py(), "priority"))?.extract()?;
    Ok((priority, frame.getattr(intern!(frame.py(), "block"))?.len()?))
}

fn block_of<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(frame) = frame.cast::<EventFrame>() {
        return Ok(frame.get().block(frame.py()));
    }
    Ok(frame.getattr(intern!(frame.py(), "block"))?.cast_into::<PyBytes>()?)
}

/// Adds the length of the path, flags, space for the count of destinations or deliveries, and the path.
fn add_path(route: &mut Vec<u8>, path: &Bound<'_, PyTuple>, flags: u8) -> PyResult<()> {
    let brokers = u8::try_from(path.len()).map_err(|_| too_many())?;
    route.extend([brokers, flags, 0, 0]);
    for broker in path.iter() {
        route.extend(broker.extract::<u64>()?.to_be_bytes());
    }
    Ok(())
}

/// Adds the destinations or deliveries of a route, and writes their count at `count_at`.
fn add_named<'py, T>(
    route: &mut Vec<u8>,
    count_at: usize,
    named: &Bound<'py, PyAny>,
    add: impl Fn(&mut Vec<u8>, T),
) -> PyResult<()>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    let mut count = 0_u16;
    for one in named.try_iter()? {
        add(route, one?.extract()?);
        count = count.checked_add(1).ok_or_else(too_many)?;
    }
    route[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
    Ok(())
}

fn too_many() -> PyErr {
    PyTypeError::new_err("more brokers or subscriptions than a route names")
}

impl DeliveryWriter {
    fn write(&self, number: u8, version: u8, route: &[u8], block: &[u8]) -> PyResult<usize> {
        let route_bytes = u16::try_from(route.len()).map_err(|_| too_many())?;
        let size = u32::try_from(route.len() + block.len()).map_err(|_| too_many())?;
        let mut out = self.out.lock().expect("no call has panicked");
        out.reserve(PREFIX_BYTES + size as usize);
        out.extend(size.to_be_bytes());
        out.extend([version, number]);
        out.extend(route_bytes.to_be_bytes());
        out.extend(route);
        out.extend(block);
        Ok(out.len())
    }
}
