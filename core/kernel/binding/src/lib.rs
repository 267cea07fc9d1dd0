//! Python bindings of Plait's native kernel: only conversions and locks.

#![forbid(unsafe_code)]

mod delivering;
mod event_frames;
mod forms;
mod index;
mod measuring;
mod plain;
mod proving;
mod recording;
mod splitter;
mod values;

/// The native module.
#[pyo3::pymodule(gil_used = false)]
mod _kernel {
    #[pymodule_export]
    use super::delivering::DeliveryWriter;
    #[pymodule_export]
    use super::event_frames::{
        AttributeReader, Deliver, EventFrame, EventFrameReader, Forward, Publish, encode_publish,
    };
    #[pymodule_export]
    use super::index::Index;
    #[pymodule_export]
    use super::measuring::{measure_add, measure_covering, measure_match, measure_match_many, measure_remove};
    #[pymodule_export]
    use super::proving::EventProver;
    #[pymodule_export]
    use super::recording::Recorder;
    #[pymodule_export]
    use super::splitter::Splitter;
}
