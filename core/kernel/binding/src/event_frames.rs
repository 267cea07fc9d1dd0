//! The hot frames as Python sees them, without one Python object per field: an event block, and the route before it.
//!
//! They implement `plait_core.wire.event_frames` under the same names: identity is decoded at once, attributes at their
//! first use. Faulty bytes are left to the Python reader, so that one place has the error messages.

// These doc comments are docstrings of Python, in its notation.
#![expect(clippy::doc_markdown, reason = "docstrings")]

use std::sync::{Arc, Mutex};

use plait_matching::wire::frames::{BLOCK_BYTES, DELIVER, FORWARD, PREFIX_BYTES, PUBLISH, Splitter as Frames};
use plait_matching::wire::{Limits, attributes};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple, PyType};

use crate::plain_attributes::{self, Names};
use crate::splitter::{limits_of, refusal_pair};

/// An event block, and the reader of its attributes.
#[pyclass(frozen, subclass, module = "plait_kernel")]
pub(crate) struct EventFrame {
    /// The bytes of the event, as they were published.
    #[pyo3(get)]
    block: Py<PyBytes>,
    #[pyo3(get)]
    pub(crate) publisher: u64,
    #[pyo3(get)]
    pub(crate) sequence: u64,
    #[pyo3(get)]
    pub(crate) published_us: i64,
    #[pyo3(get)]
    pub(crate) lifetime_us: i64,
    #[pyo3(get)]
    pub(crate) priority: u8,
    /// Bytes of the block.
    pub(crate) bytes: usize,
    attributes_end: usize,
    payload_start: usize,
    unpacked: PyOnceLock<Py<PyDict>>,
    /// `plait_core.wire.attributes.AttributeReader`.
    reader: Py<PyAny>,
    pub(crate) limits: Arc<Limits>,
}

impl EventFrame {
    /// Makes a frame of a block that was checked.
    fn of(py: Python<'_>, block: &[u8], reader: Py<PyAny>, limits: Arc<Limits>) -> Self {
        let number = |at: usize| u64::from_be_bytes(block[at..at + 8].try_into().expect("eight bytes"));
        let headers_bytes = usize::from(u16::from_be_bytes([block[34], block[35]]));
        let attributes_bytes = u32::from_be_bytes([block[36], block[37], block[38], block[39]]) as usize;
        let attributes_end = BLOCK_BYTES + attributes_bytes;
        Self {
            block: PyBytes::new(py, block).unbind(),
            publisher: number(0),
            sequence: number(8),
            published_us: number(16) as i64,
            lifetime_us: number(24) as i64,
            priority: block[33],
            bytes: block.len(),
            attributes_end,
            payload_start: attributes_end + headers_bytes,
            unpacked: PyOnceLock::new(),
            reader,
            limits,
        }
    }

    /// Makes a frame of a block from Python.
    fn checked(block: &Bound<'_, PyBytes>, reader: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let py = block.py();
        let reader = match reader {
            Some(reader) => reader.clone(),
            None => default_reader(py)?,
        };
        let native = reader.getattr(intern!(py, "native"))?;
        let limits = native.cast::<AttributeReader>()?.get().limits.clone();
        let splitter = Frames::new(*limits, 0, &[]);
        match splitter.check_block(block.as_bytes()) {
            Ok(_) => Ok(Self::of(py, block.as_bytes(), reader.unbind(), limits)),
            Err(refusal) => Err(frame_error(py, refusal_pair(refusal))),
        }
    }

    pub(crate) fn block<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.block.bind(py).clone()
    }

    /// The encoded attributes in the block.
    pub(crate) fn packed<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        &self.block.bind(py).as_bytes()[BLOCK_BYTES..self.attributes_end]
    }
}

fn default_reader(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static READER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let found = READER.get_or_try_init(py, || {
        let module = py.import("plait_core.wire.event_block")?;
        module.getattr("DEFAULT_READER").map(Bound::unbind)
    })?;
    Ok(found.bind(py).clone())
}

fn frame_error(py: Python<'_>, (fault, message): (&str, String)) -> PyErr {
    let made = py.import("plait_core.errors").and_then(|errors| {
        let fault = errors.getattr("FrameFault")?.call1((fault,))?;
        errors.getattr("FrameError")?.call1((fault, message))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

#[pymethods]
impl EventFrame {
    #[new]
    #[pyo3(signature = (block, reader = None))]
    fn new(block: &Bound<'_, PyBytes>, reader: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Self::checked(block, reader)
    }

    /// The event's permanent name.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static ID: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        ID.import(py, "plait_core.events", "EventId")?.call1((self.publisher, self.sequence))
    }

    /// Return the attributes, or raise FrameError. Decoded once; all callers get the same dict and must not change it.
    pub(crate) fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = self.unpacked.get_or_try_init(py, || {
            let packed = PyBytes::new(py, self.packed(py));
            let found = self.reader.bind(py).call_method1(intern!(py, "attributes"), (packed,))?;
            Ok::<_, PyErr>(found.cast_into::<PyDict>()?.unbind())
        })?;
        Ok(found.bind(py).clone())
    }

    /// Whether the name of an attribute begins with `$`. Also true of attributes with a `$` that cannot be decoded.
    #[getter]
    fn has_dollar_name(&self, py: Python<'_>) -> bool {
        attributes::has_dollar_name(self.packed(py), &self.limits)
    }

    /// Return the headers, or raise FrameError.
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let packed = &self.block.bind(py).as_bytes()[self.attributes_end..self.payload_start];
        self.reader.bind(py).call_method1(intern!(py, "headers"), (PyBytes::new(py, packed),))
    }

    /// The payload.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.block.bind(py).as_bytes()[self.payload_start..])
    }

    /// Return the whole event, or raise FrameError.
    fn event<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static EVENT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let (py, frame) = (slf.py(), slf.get());
        let event = EVENT.import(py, "plait_core.events", "Event")?;
        event.call1((
            frame.attributes(py)?,
            frame.payload(py),
            frame.publisher,
            frame.sequence,
            frame.published_us,
            frame.lifetime_us,
            frame.priority,
            frame.headers(py)?,
        ))
    }

    /// Return the fields of the frame's route.
    #[expect(clippy::unused_self, reason = "overridden")]
    fn _route<'py>(&self, py: Python<'py>) -> Bound<'py, PyTuple> {
        PyTuple::empty(py)
    }

    fn __eq__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = slf.py();
        if !slf.get_type().is(other.get_type()) {
            return Ok(false);
        }
        let same = slf.get().block.bind(py).as_bytes() == other.cast::<Self>()?.get().block.bind(py).as_bytes();
        let route = intern!(py, "_route");
        Ok(same && slf.call_method0(route)?.eq(other.call_method0(route)?)?)
    }

    #[expect(clippy::unused_self, reason = "a method of Python's")]
    fn __hash__(&self) -> PyResult<isize> {
        Err(PyTypeError::new_err("unhashable: a queue or table of frames is keyed by event id"))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let py = slf.py();
        let (name, id) = (slf.get_type().name()?, slf.get().id(py)?.repr()?);
        let route = slf.call_method0(intern!(py, "_route"))?.repr()?;
        Ok(format!("{name}({id}, {route}, {} bytes)", slf.get().block.bind(py).as_bytes().len()))
    }
}

/// An event from its publisher.
#[pyclass(frozen, extends = EventFrame, module = "plait_kernel")]
pub(crate) struct Publish {
    confirm: u8,
}

#[pymethods]
impl Publish {
    #[new]
    #[pyo3(signature = (confirm, block, reader = None))]
    fn new(
        confirm: u8,
        block: &Bound<'_, PyBytes>,
        reader: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        Ok(PyClassInitializer::from(EventFrame::checked(block, reader)?).add_subclass(Self { confirm }))
    }

    /// The confirmation that its publisher waits for.
    #[getter]
    fn confirm<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static LEVELS: PyOnceLock<Py<PyTuple>> = PyOnceLock::new();
        let levels = LEVELS.get_or_try_init(py, || {
            let levels = py.import("plait_core.wire.event_frames")?.getattr("CONFIRMS")?;
            Ok::<_, PyErr>(levels.cast_into::<PyTuple>()?.unbind())
        })?;
        levels.bind(py).get_item(usize::from(self.confirm))
    }

    fn _route<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (self.confirm(py)?,).into_pyobject(py)
    }
}

/// A copy of an event on its way between brokers.
#[pyclass(frozen, extends = EventFrame, module = "plait_kernel")]
pub(crate) struct Forward {
    #[pyo3(get)]
    tree: u64,
    #[pyo3(get)]
    pub(crate) delay_us: u64,
    #[pyo3(get)]
    flags: u8,
    #[pyo3(get)]
    pub(crate) path: Py<PyTuple>,
    #[pyo3(get)]
    pub(crate) destinations: Py<PyTuple>,
}

#[pymethods]
impl Forward {
    #[new]
    #[pyo3(signature = (tree, delay_us, flags, path, destinations, block, reader = None))]
    fn new(
        tree: u64,
        delay_us: u64,
        flags: u8,
        path: Py<PyTuple>,
        destinations: Py<PyTuple>,
        block: &Bound<'_, PyBytes>,
        reader: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        Ok(PyClassInitializer::from(EventFrame::checked(block, reader)?).add_subclass(Self {
            tree,
            delay_us,
            flags,
            path,
            destinations,
        }))
    }

    fn _route<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (self.tree, self.delay_us, self.flags, &self.path, &self.destinations).into_pyobject(py)
    }
}

/// An event for subscriptions of one client.
#[pyclass(frozen, extends = EventFrame, module = "plait_kernel")]
pub(crate) struct Deliver {
    #[pyo3(get)]
    delay_us: u64,
    #[pyo3(get)]
    flags: u8,
    #[pyo3(get)]
    path: Py<PyTuple>,
    #[pyo3(get)]
    deliveries: Py<PyTuple>,
}

#[pymethods]
impl Deliver {
    #[new]
    #[pyo3(signature = (delay_us, flags, path, deliveries, block, reader = None))]
    fn new(
        delay_us: u64,
        flags: u8,
        path: Py<PyTuple>,
        deliveries: Py<PyTuple>,
        block: &Bound<'_, PyBytes>,
        reader: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<PyClassInitializer<Self>> {
        Ok(PyClassInitializer::from(EventFrame::checked(block, reader)?).add_subclass(Self {
            delay_us,
            flags,
            path,
            deliveries,
        }))
    }

    fn _route<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (self.delay_us, self.flags, &self.path, &self.deliveries).into_pyobject(py)
    }
}

/// Decode plain attributes within limits. Return None for others.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct AttributeReader {
    limits: Arc<Limits>,
    names: Mutex<Names>,
}

#[pymethods]
impl AttributeReader {
    /// `limits` is a WireLimits.
    #[new]
    fn new(limits: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { limits: Arc::new(limits_of(limits)?), names: Mutex::default() })
    }

    /// Decode the attributes. Return None if they are not plain.
    fn attributes<'py>(&self, packed: &Bound<'py, PyBytes>) -> PyResult<Option<Bound<'py, PyDict>>> {
        // Making objects may collect garbage, whose finalisers may call this again: those calls leave the work to
        // Python.
        let Ok(mut names) = self.names.try_lock() else { return Ok(None) };
        plain_attributes::unpack(packed.py(), packed.as_bytes(), &self.limits, &mut names)
    }
}

/// Paths in the cache of an `EventFrameReader`: those of the last links that alternate, at one entry a hash.
const PATHS_KEPT: usize = 64;

/// A path's bytes with its tuple.
type CachedPath = Option<(Vec<u8>, Py<PyTuple>)>;

/// Decode the hot frames in the reads of all connections with equal limits and version.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct EventFrameReader {
    frames: Frames,
    version: u8,
    reader: Py<PyAny>,
    limits: Arc<Limits>,
    /// Recent paths, because nearly always the next one of a connection is the same.
    paths: Mutex<[CachedPath; PATHS_KEPT]>,
}

#[pymethods]
impl EventFrameReader {
    /// `limits` is a WireLimits, `reader` the Python reader of attributes for them.
    #[new]
    fn new(limits: &Bound<'_, PyAny>, version: u8, reader: &Bound<'_, PyAny>) -> PyResult<Self> {
        let limits = limits_of(limits)?;
        let frames = Frames::new(limits, version, &[]);
        let limits = Arc::new(limits);
        let paths = Mutex::new([const { None }; PATHS_KEPT]);
        Ok(Self { frames, version, reader: reader.clone().unbind(), limits, paths })
    }

    /// Append the complete and valid hot frames that follow each other from `at` on. Return where they end. The Python
    /// decoder handles what follows: a control frame, an incomplete frame, or a fault.
    fn read(&self, read: &Bound<'_, PyBytes>, at: usize, found: &Bound<'_, PyList>) -> PyResult<usize> {
        let py = read.py();
        let bytes = read.as_bytes();
        let mut at = at;
        while let Some([_, _, _, _, version, number @ PUBLISH..=DELIVER, ..]) = bytes.get(at..at + PREFIX_BYTES) {
            if *version != self.version {
                break;
            }
            let Ok(Some(frame)) = self.frames.next(bytes, at) else { break };
            let route = &bytes[at + PREFIX_BYTES..frame.body];
            let block = &bytes[frame.body..frame.end];
            let event = EventFrame::of(py, block, self.reader.clone_ref(py), self.limits.clone());
            found.append(self.frame(py, *number, route, event)?)?;
            at = frame.end;
        }
        Ok(at)
    }
}

impl EventFrameReader {
    fn frame<'py>(&self, py: Python<'py>, number: u8, route: &[u8], event: EventFrame) -> PyResult<Bound<'py, PyAny>> {
        let base = PyClassInitializer::from(event);
        let delay = |at: usize| u64::from_be_bytes(route[at..at + 8].try_into().expect("eight bytes"));
        Ok(match number {
            PUBLISH => Bound::new(py, base.add_subclass(Publish { confirm: route[0] }))?.into_any(),
            FORWARD => {
                let path_end = 20 + 8 * usize::from(route[16]);
                let forward = Forward {
                    tree: delay(0),
                    delay_us: delay(8),
                    flags: route[17],
                    path: self.path(py, &route[20..path_end])?,
                    destinations: destinations(py, &route[path_end..])?.unbind(),
                };
                Bound::new(py, base.add_subclass(forward))?.into_any()
            }
            _ => {
                let path_end = 12 + 8 * usize::from(route[8]);
                let deliver = Deliver {
                    delay_us: delay(0),
                    flags: route[9],
                    path: self.path(py, &route[12..path_end])?,
                    deliveries: deliveries(py, &route[path_end..])?.unbind(),
                };
                Bound::new(py, base.add_subclass(deliver))?.into_any()
            }
        })
    }

    fn path(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<Py<PyTuple>> {
        let slot = path_slot(bytes);
        if let Some((same, path)) = &self.paths.lock().expect("no call has panicked")[slot]
            && same == bytes
        {
            return Ok(path.clone_ref(py));
        }
        let path = numbers(py, bytes)?.unbind();
        let last = Some((bytes.to_vec(), path.clone_ref(py)));
        let before = std::mem::replace(&mut self.paths.lock().expect("no call has panicked")[slot], last);
        drop(before); // only after the lock is released
        Ok(path)
    }
}

/// The cache entry of a path: broker ids are random, so the low bytes of the first and the last differ.
fn path_slot(bytes: &[u8]) -> usize {
    let (first, last) = (bytes.get(7).copied().unwrap_or(0), bytes.last().copied().unwrap_or(0));
    usize::from(first.wrapping_mul(31).wrapping_add(last)) % PATHS_KEPT
}

fn numbers<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let (numbers, _) = bytes.as_chunks::<8>();
    PyTuple::new(py, numbers.iter().map(|number| u64::from_be_bytes(*number)))
}

/// Decodes `>QQQ` each: broker, position, proof.
fn destinations<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let (named, _) = bytes.as_chunks::<8>();
    let number = |field: &[u8; 8]| u64::from_be_bytes(*field);
    let made = named
        .chunks_exact(3)
        .map(|fields| (number(&fields[0]), number(&fields[1]), number(&fields[2])).into_pyobject(py));
    PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

/// Decodes `>IIQ` each: subscription, flags, position.
fn deliveries<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    let (named, _) = bytes.as_chunks::<16>();
    let made = named.iter().map(|fields| {
        let small = |at: usize| u32::from_be_bytes(fields[at..at + 4].try_into().expect("four bytes"));
        let position = u64::from_be_bytes(fields[8..].try_into().expect("eight bytes"));
        (small(0), small(4), position).into_pyobject(py)
    });
    PyTuple::new(py, made.collect::<PyResult<Vec<_>>>()?)
}

/// Encode a publish frame of a plain event, as `plait_core.wire.encode_publish` does. Return None if the event is not
/// plain; Python then has to check it.
#[pyfunction]
pub(crate) fn encode_publish<'py>(
    reader: &Bound<'py, AttributeReader>,
    attributes: &Bound<'py, PyAny>,
    payload: &Bound<'py, PyAny>,
    publisher: u64,
    sequence: u64,
    published_us: i64,
    version: u8,
) -> Option<Bound<'py, PyBytes>> {
    const FIXED: usize = PREFIX_BYTES + 2 + BLOCK_BYTES;
    let limits = &reader.get().limits;
    let attributes = attributes.cast_exact::<PyDict>().ok()?;
    let payload = payload.cast_exact::<PyBytes>().ok()?.as_bytes();
    if payload.len() > limits.payload_bytes {
        return None;
    }
    let mut out = Vec::with_capacity(FIXED + 32 * attributes.len() + payload.len());
    out.resize(FIXED, 0);
    if !plain_attributes::pack(attributes, limits, &mut out) {
        return None;
    }
    let attributes_bytes = (out.len() - FIXED) as u32;
    out.extend(payload);
    let size = (out.len() - PREFIX_BYTES) as u32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out[4..8].copy_from_slice(&[version, PUBLISH, 0, 2]);
    out[10..18].copy_from_slice(&publisher.to_be_bytes());
    out[18..26].copy_from_slice(&sequence.to_be_bytes());
    out[26..34].copy_from_slice(&published_us.to_be_bytes());
    out[46..50].copy_from_slice(&attributes_bytes.to_be_bytes());
    Some(PyBytes::new(attributes.py(), &out))
}
