//! What goes out over one connection: events for a client or for the next broker, written behind each other.

use std::sync::Mutex;

use plait_matching::wire::frames::{DELIVER, FORWARD, PREFIX_BYTES};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::event_frames::EventFrame;

const FIXED: usize = PREFIX_BYTES + 12;

/// Bytes for one connection.
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

    /// Write a deliver frame: an event for these (subscription, flags, position); how many bytes wait now.
    fn deliver(
        &self,
        frame: &Bound<'_, PyAny>,
        delay_us: u64,
        path: &Bound<'_, PyTuple>,
        deliveries: &Bound<'_, PyAny>,
        version: u8,
    ) -> PyResult<usize> {
        let path = path.iter().map(|broker| broker.extract::<u64>()).collect::<PyResult<Vec<_>>>()?;
        let named = deliveries.try_iter()?.map(|delivery| delivery?.extract::<(u32, u32, u64)>());
        let named = named.collect::<PyResult<Vec<_>>>()?;
        self.write(block_of(frame)?.as_bytes(), delay_us, &path, &named, version)
    }

    /// Write a forward frame: an event on its way to these (broker, position); how many bytes wait now.
    #[expect(clippy::too_many_arguments, reason = "what a forward frame says")]
    fn forward(
        &self,
        frame: &Bound<'_, PyAny>,
        tid: u64,
        delay_us: u64,
        flags: u8,
        path: &Bound<'_, PyTuple>,
        destinations: &Bound<'_, PyAny>,
        version: u8,
    ) -> PyResult<usize> {
        let path = path.iter().map(|broker| broker.extract::<u64>()).collect::<PyResult<Vec<_>>>()?;
        let named = destinations.try_iter()?.map(|destination| destination?.extract::<(u64, u64)>());
        let named = named.collect::<PyResult<Vec<_>>>()?;
        let route_bytes = 20 + 8 * path.len() + 16 * named.len();
        let block = block_of(frame)?;
        let block = block.as_bytes();
        let (Ok(route), Ok(brokers), Ok(count), Ok(size)) = (
            u16::try_from(route_bytes),
            u8::try_from(path.len()),
            u16::try_from(named.len()),
            u32::try_from(route_bytes + block.len()),
        ) else {
            return Err(PyTypeError::new_err("more brokers than a route names"));
        };
        let mut out = self.out.lock().expect("no call has panicked");
        out.reserve(PREFIX_BYTES + size as usize);
        out.extend(size.to_be_bytes());
        out.extend([version, FORWARD]);
        out.extend(route.to_be_bytes());
        out.extend(tid.to_be_bytes());
        out.extend(delay_us.to_be_bytes());
        out.extend([brokers, flags]);
        out.extend(count.to_be_bytes());
        for broker in path {
            out.extend(broker.to_be_bytes());
        }
        for (broker, position) in named {
            out.extend(broker.to_be_bytes());
            out.extend(position.to_be_bytes());
        }
        out.extend(block);
        Ok(out.len())
    }

    /// Write bytes as they are; how many wait now.
    fn append(&self, data: &[u8]) -> usize {
        let mut out = self.out.lock().expect("no call has panicked");
        out.extend(data);
        out.len()
    }

    /// Everything that waits, which does so no more.
    fn take<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let taken = std::mem::take(&mut *self.out.lock().expect("no call has panicked"));
        PyBytes::new(py, &taken)
    }
}

fn block_of<'py>(frame: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(frame) = frame.cast::<EventFrame>() {
        return Ok(frame.get().block(frame.py()));
    }
    Ok(frame.getattr(intern!(frame.py(), "block"))?.cast_into::<PyBytes>()?)
}

impl DeliveryWriter {
    fn write(
        &self,
        block: &[u8],
        delay_us: u64,
        path: &[u64],
        named: &[(u32, u32, u64)],
        version: u8,
    ) -> PyResult<usize> {
        let route_bytes = FIXED - PREFIX_BYTES + 8 * path.len() + 16 * named.len();
        let (Ok(route), Ok(brokers), Ok(count), Ok(size)) = (
            u16::try_from(route_bytes),
            u8::try_from(path.len()),
            u16::try_from(named.len()),
            u32::try_from(route_bytes + block.len()),
        ) else {
            return Err(PyTypeError::new_err("more brokers or subscriptions than a route names"));
        };
        let mut out = self.out.lock().expect("no call has panicked");
        out.reserve(PREFIX_BYTES + size as usize);
        out.extend(size.to_be_bytes());
        out.extend([version, DELIVER]);
        out.extend(route.to_be_bytes());
        out.extend(delay_us.to_be_bytes());
        out.extend([brokers, 0]);
        out.extend(count.to_be_bytes());
        for broker in path {
            out.extend(broker.to_be_bytes());
        }
        for (subscription, flags, position) in named {
            out.extend(subscription.to_be_bytes());
            out.extend(flags.to_be_bytes());
            out.extend(position.to_be_bytes());
        }
        out.extend(block);
        Ok(out.len())
    }
}
