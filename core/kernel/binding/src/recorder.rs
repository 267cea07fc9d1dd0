//! Records of telemetry, written in the path of events: the same interface and bytes as `plait_telemetry.recorder`.
//!
//! One thread records and one thread takes records out. Each has a counter that it alone advances, so neither waits.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyTuple};

use crate::event_frames::{EventFrame, Forward};

/// Words of a record.
const WORDS: usize = 8;
const RECORD_BYTES: usize = WORDS * 8;

/// Records that are copied out at once: two megabytes. Python goes on meanwhile.
const TAKEN_MAX: u64 = 1 << 15;

/// The numbers of kinds, as in `plait_core.telemetry.schema`.
const PUBLISH: u64 = 1;
const ARRIVAL: u64 = 2;
const FORWARD: u64 = 3;
const DELIVERY: u64 = 4;

/// A ring of records.
#[pyclass(frozen, module = "plait_kernel")]
pub(crate) struct Recorder {
    words: Box<[AtomicU64]>,
    /// Capacity in records, less one.
    mask: u64,
    wall_offset_us: i64,
    written: AtomicU64,
    taken: AtomicU64,
    lost: AtomicU64,
    weight: AtomicU64,
    /// The time of the last record, by the caller's clock and by the calendar.
    now: AtomicU64,
    now_us: AtomicU64,
    /// The cell of the next published event.
    cell: AtomicU64,
    /// The event matched last, and the number of its matches.
    publisher: AtomicU64,
    sequence: AtomicU64,
    expected: AtomicU64,
}

/// The fields of a record that are taken from its event.
struct EventFields {
    publisher: u64,
    sequence: u64,
    published_us: i64,
    lifetime_us: i64,
    bytes: usize,
    hops: usize,
}

/// The fields of a record beside those of its event.
struct RecordFields {
    kind: u64,
    subject: u64,
    delay_us: u64,
    bound_us: u64,
    count: u64,
    expected: u64,
    hops: u64,
    flags: u64,
}

#[pymethods]
impl Recorder {
    /// Make a ring with this capacity in records, a power of two.
    #[new]
    fn new(records: usize, wall_offset_us: i64) -> PyResult<Self> {
        if !records.is_power_of_two() {
            return Err(PyValueError::new_err("not a power of two"));
        }
        let zero = AtomicU64::default;
        Ok(Self {
            words: std::iter::repeat_with(zero).take(records * WORDS).collect(),
            mask: records as u64 - 1,
            wall_offset_us,
            written: zero(),
            taken: zero(),
            lost: zero(),
            weight: AtomicU64::new(1),
            now: zero(),
            now_us: AtomicU64::new(wall_offset_us as u64),
            cell: zero(),
            publisher: zero(),
            sequence: zero(),
            expected: zero(),
        })
    }

    /// Records put in since the start.
    #[getter]
    fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Records taken out since the start.
    #[getter]
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }

    /// Records dropped because the ring was full.
    #[getter]
    fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Record one event in `weight`, a power of two, from now on, and write that weight into the records.
    fn weigh(&self, weight: u16) -> PyResult<()> {
        if !weight.is_power_of_two() {
            return Err(PyValueError::new_err("not a power of two"));
        }
        self.weight.store(u64::from(weight), Ordering::Relaxed);
        Ok(())
    }

    /// Set the cell of the next published event.
    #[pyo3(signature = (cell, /))]
    fn locate(&self, cell: u64) {
        self.cell.store(cell, Ordering::Relaxed);
    }

    /// Record that an event of a publisher of this process was admitted, with its matches.
    #[pyo3(signature = (frame, subscriptions, durables, destinations, delay_us, now, /))]
    fn published(
        &self,
        frame: &Bound<'_, EventFrame>,
        subscriptions: &Bound<'_, PyAny>,
        durables: &Bound<'_, PyAny>,
        destinations: &Bound<'_, PyAny>,
        delay_us: i64,
        now: f64,
    ) -> PyResult<()> {
        let matched = subscriptions.len()? + durables.len()?;
        self.event(frame, (PUBLISH, self.take_cell(), matched, destinations.len()?), delay_us, now)
    }

    /// Record that an event of another process' publisher arrived, with its matches.
    #[pyo3(signature = (frame, root, subscriptions, durables, delay_us, now, /))]
    fn arrived(
        &self,
        frame: &Bound<'_, EventFrame>,
        root: u64,
        subscriptions: &Bound<'_, PyAny>,
        durables: &Bound<'_, PyAny>,
        delay_us: i64,
        now: f64,
    ) -> PyResult<()> {
        let matched = subscriptions.len()? + durables.len()?;
        self.event(frame, (ARRIVAL, root, matched, 0), delay_us, now)
    }

    /// Record that a copy was written to a neighbour.
    #[pyo3(signature = (frame, neighbour, delay_us, hops, destinations, now, /))]
    fn forwarded(
        &self,
        frame: &Bound<'_, EventFrame>,
        neighbour: u64,
        delay_us: i64,
        hops: i64,
        destinations: i64,
        now: f64,
    ) -> PyResult<()> {
        let seen = seen(frame);
        let (delay_us, bound_us, count) = (clipped(delay_us)?, clipped(seen.lifetime_us)?, within_u32(destinations)?);
        let hops = clipped(hops)?.min(255);
        let (kind, subject, expected, flags) = (FORWARD, neighbour, 0, 0);
        self.record(&seen, &RecordFields { kind, subject, delay_us, bound_us, count, expected, hops, flags }, now);
        Ok(())
    }

    /// Record that one delivery was written, to the subscription with this number and bound.
    #[pyo3(signature = (number, within_us, frame, delay_us, flags, now, /))]
    fn delivered(
        &self,
        number: i64,
        within_us: i64,
        frame: &Bound<'_, EventFrame>,
        delay_us: i64,
        flags: u8,
        now: f64,
    ) -> PyResult<()> {
        let seen = seen(frame);
        let same = self.publisher.load(Ordering::Relaxed) == seen.publisher
            && self.sequence.load(Ordering::Relaxed) == seen.sequence;
        let fields = RecordFields {
            kind: DELIVERY,
            subject: u64::try_from(number).map_err(|_| negative())?,
            delay_us: clipped(delay_us)?,
            bound_us: clipped(within_us)?,
            count: 1,
            expected: if same { self.expected.load(Ordering::Relaxed) } else { 0 },
            hops: hops(&seen)?,
            flags: flags.into(),
        };
        self.record(&seen, &fields, now);
        Ok(())
    }

    /// Record that an event of a publisher of this process was admitted and written to its one subscription at once.
    #[pyo3(signature = (frame, number, within_us, delay_us, flags, now, /))]
    fn passed(
        &self,
        frame: &Bound<'_, EventFrame>,
        number: i64,
        within_us: i64,
        delay_us: i64,
        flags: u8,
        now: f64,
    ) -> PyResult<()> {
        let seen = seen(frame);
        let subject = u64::try_from(number).map_err(|_| negative())?;
        let (delay_us, hops, expected) = (clipped(delay_us)?, hops(&seen)?, 1);
        self.expect(&seen, expected);
        let (published, delivered) = (clipped(seen.lifetime_us)?, clipped(within_us)?);
        let (kind, bound_us, cell) = (PUBLISH, published, self.take_cell());
        self.record(
            &seen,
            &RecordFields { kind, subject: cell, delay_us, bound_us, count: 0, expected, hops, flags: 0 },
            now,
        );
        let (kind, bound_us, flags) = (DELIVERY, delivered, flags.into());
        self.record(&seen, &RecordFields { kind, subject, delay_us, bound_us, count: 1, expected, hops, flags }, now);
        Ok(())
    }

    /// Record each of these events under one kind (plus reason times 256). Without a bound the event's lifetime is
    /// recorded.
    #[expect(clippy::too_many_arguments, reason = "the fields of a record beside those of its event")]
    #[pyo3(signature = (kind, frames, subject, bound_us, added_us, count, expected, hops, flags, now, /))]
    fn each(
        &self,
        kind: u16,
        frames: &Bound<'_, PyAny>,
        subject: u64,
        bound_us: Option<i64>,
        added_us: i64,
        count: i64,
        expected: u16,
        hops: i64,
        flags: u8,
        now: f64,
    ) -> PyResult<()> {
        let (count, hops) = (within_u32(count)?, clipped(hops)?.min(255));
        for frame in frames.try_iter()? {
            let frame = frame?;
            let come_us = frame.cast_exact::<Forward>().map_or(0, |forward| forward.get().delay_us);
            let seen = seen(frame.cast::<EventFrame>()?);
            let fields = RecordFields {
                kind: kind.into(),
                subject,
                delay_us: clipped(added_us)?.saturating_add(come_us).min(u64::from(u32::MAX)),
                bound_us: clipped(bound_us.unwrap_or(seen.lifetime_us))?,
                count,
                expected: expected.into(),
                hops,
                flags: flags.into(),
            };
            self.record(&seen, &fields, now);
        }
        Ok(())
    }

    /// Write any other record, with the arguments of `plait_core.telemetry.pack_into`.
    #[pyo3(signature = (*fields))]
    fn put(&self, fields: &Bound<'_, PyTuple>) -> PyResult<()> {
        type First = (i64, i64, u64, u64, u64, u32, u32, u32, u32);
        type Last = (u16, u16, u8, u8, u8, u8);
        if fields.len() != 15 {
            return Err(PyTypeError::new_err("a record has 15 fields"));
        }
        let first: First = fields.get_slice(0, 9).extract()?;
        let (expected, weight, kind, reason, hops, flags): Last = fields.get_slice(9, 15).extract()?;
        let (ts_us, published_us, publisher, sequence, subject, delay_us, bound_us, size, count) = first;
        self.push([
            ts_us as u64,
            published_us as u64,
            publisher,
            sequence,
            subject,
            u64::from(delay_us) | u64::from(bound_us) << 32,
            u64::from(size) | u64::from(count) << 32,
            u64::from(expected)
                | u64::from(weight) << 16
                | u64::from(u32::from_le_bytes([kind, reason, hops, flags])) << 32,
        ]);
        Ok(())
    }

    /// Return records that wait, in order, perhaps not all of them; `release` frees their slots.
    fn filled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let (taken, written) = (self.taken(), self.written());
        let found = PyList::empty(py);
        if written == taken {
            return Ok(found);
        }
        let end = written.min(taken + TAKEN_MAX);
        let bytes = PyBytes::new_with(py, (end - taken) as usize * RECORD_BYTES, |bytes| {
            py.detach(|| self.write_out(taken, end, bytes));
            Ok(())
        })?;
        found.append(PyMemoryView::from(&bytes)?)?;
        Ok(found)
    }

    /// Return records by number, taken out or not. Only the producer may call this, as only it knows they still exist.
    #[pyo3(signature = (start, end, /))]
    fn copy<'py>(&self, py: Python<'py>, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let written = self.written();
        if start > end || end > written || written - start > self.mask + 1 {
            return Err(PyValueError::new_err("not there, or written over"));
        }
        PyBytes::new_with(py, (end - start) as usize * RECORD_BYTES, |bytes| {
            self.write_out(start, end, bytes);
            Ok(())
        })
    }

    /// Free the slots of this many records, which were written out.
    fn release(&self, records: u64) -> PyResult<()> {
        let taken = self.taken();
        if records > self.written() - taken {
            return Err(PyValueError::new_err("more than there are"));
        }
        self.taken.store(taken + records, Ordering::Release);
        Ok(())
    }
}

impl Recorder {
    /// Copies records by their number to `bytes`.
    fn write_out(&self, start: u64, end: u64, bytes: &mut [u8]) {
        let (places, _) = bytes.as_chunks_mut::<8>();
        let words = (start..end).flat_map(|at| self.place(at));
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.load(Ordering::Relaxed).to_le_bytes();
        }
    }

    /// Records an event that was matched, and remembers the number of its matches for its deliveries.
    fn event(
        &self,
        frame: &Bound<'_, EventFrame>,
        (kind, subject, matched, count): (u64, u64, usize, usize),
        delay_us: i64,
        now: f64,
    ) -> PyResult<()> {
        let seen = seen(frame);
        let expected = (matched as u64).min(u64::from(u16::MAX));
        self.expect(&seen, expected);
        let (delay_us, bound_us, count) =
            (clipped(delay_us)?, clipped(seen.lifetime_us)?, (count as u64).min(u64::from(u32::MAX)));
        let (hops, flags) = (hops(&seen)?, 0);
        self.record(&seen, &RecordFields { kind, subject, delay_us, bound_us, count, expected, hops, flags }, now);
        Ok(())
    }

    /// Takes the cell of the event that is published now.
    #[inline]
    fn take_cell(&self) -> u64 {
        let cell = self.cell.load(Ordering::Relaxed);
        if cell != 0 {
            self.cell.store(0, Ordering::Relaxed);
        }
        cell
    }

    /// Returns the number of matches of an event, for the records of its deliveries.
    #[inline]
    fn expect(&self, seen: &EventFields, expected: u64) {
        self.publisher.store(seen.publisher, Ordering::Relaxed);
        self.sequence.store(seen.sequence, Ordering::Relaxed);
        self.expected.store(expected, Ordering::Relaxed);
    }

    /// Writes a record, unless sampling leaves its event out.
    #[inline]
    fn record(&self, seen: &EventFields, fields: &RecordFields, now: f64) {
        let weight = self.weight.load(Ordering::Relaxed);
        if ((seen.sequence & 0xF_FFFF) * 2_654_435_761) >> 12 & (weight - 1) != 0 {
            return;
        }
        self.push([
            self.calendar_us(now),
            seen.published_us as u64,
            seen.publisher,
            seen.sequence,
            fields.subject,
            fields.delay_us | fields.bound_us << 32,
            seen.bytes as u64 | fields.count << 32,
            fields.expected | weight << 16 | fields.kind << 32 | fields.hops << 48 | fields.flags << 56,
        ]);
    }

    /// Returns calendar time. It is computed once per read.
    #[inline]
    fn calendar_us(&self, now: f64) -> u64 {
        if self.now.load(Ordering::Relaxed) == now.to_bits() {
            return self.now_us.load(Ordering::Relaxed);
        }
        let now_us = ((now * 1e6).round_ties_even() as i64).wrapping_add(self.wall_offset_us) as u64;
        self.now.store(now.to_bits(), Ordering::Relaxed);
        self.now_us.store(now_us, Ordering::Relaxed);
        now_us
    }

    #[inline]
    fn push(&self, words: [u64; WORDS]) {
        let written = self.written.load(Ordering::Relaxed);
        if written - self.taken.load(Ordering::Acquire) > self.mask {
            self.lost.store(self.lost.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            return;
        }
        for (place, word) in self.place(written).iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.written.store(written + 1, Ordering::Release);
    }

    #[inline]
    fn place(&self, record: u64) -> &[AtomicU64] {
        let from = (record & self.mask) as usize * WORDS;
        &self.words[from..from + WORDS]
    }
}

/// Reads the recorded fields of an event.
#[inline]
fn seen(frame: &Bound<'_, EventFrame>) -> EventFields {
    let forward = frame.as_any().cast_exact::<Forward>();
    let passed = forward.map_or(0, |forward| forward.get().path.bind(frame.py()).len());
    let frame = frame.get();
    EventFields {
        publisher: frame.publisher,
        sequence: frame.sequence,
        published_us: frame.published_us,
        lifetime_us: frame.lifetime_us,
        bytes: frame.bytes,
        hops: 1 + passed,
    }
}

/// Clips a number to 32 bits.
#[inline]
fn clipped(number: i64) -> PyResult<u64> {
    u64::try_from(number).map(|number| number.min(u64::from(u32::MAX))).map_err(|_| negative())
}

/// A number of 32 bits.
#[inline]
fn within_u32(number: i64) -> PyResult<u64> {
    u32::try_from(number).map(u64::from).map_err(|_| PyValueError::new_err("not a number of 32 bits"))
}

#[inline]
fn hops(seen: &EventFields) -> PyResult<u64> {
    u8::try_from(seen.hops).map(u64::from).map_err(|_| PyValueError::new_err("a path longer than a frame has"))
}

#[cold]
fn negative() -> PyErr {
    PyValueError::new_err("what is recorded is never negative")
}
