//! Python bindings of Plait's native kernel: only conversions and locks.

#![deny(unsafe_code)]

mod delivery_writer;
mod event_frames;
mod event_mac;
mod freed_memory;
mod index;
mod normal_form;
mod plain_attributes;
mod recorder;
mod splitter;
mod timing;
mod values;

/// The native module.
#[pyo3::pymodule(gil_used = false)]
mod _kernel {
    #[pymodule_export]
    use super::delivery_writer::{DeliveryWriter, common_stream};
    #[pymodule_export]
    use super::event_frames::{
        AttributeReader, Deliver, EventFrame, EventFrameReader, Forward, Publish, encode_publish,
    };
    #[pymodule_export]
    use super::event_mac::EventProver;
    #[pymodule_export]
    use super::index::Index;
    #[pymodule_export]
    use super::recorder::Recorder;
    #[pymodule_export]
    use super::splitter::Splitter;
    #[pymodule_export]
    use super::timing::{measure_add, measure_covering, measure_match, measure_match_many, measure_remove};
}
