//! Plait's native kernel, bound to Python: conversions and locks, and nothing else.

#![forbid(unsafe_code)]

mod forms;
mod index;
mod measuring;
mod splitter;
mod values;

/// The native module.
#[pyo3::pymodule(gil_used = false)]
mod _kernel {
    #[pymodule_export]
    use super::index::Index;
    #[pymodule_export]
    use super::measuring::{measure_add, measure_covering, measure_match, measure_match_many, measure_remove};
    #[pymodule_export]
    use super::splitter::Splitter;
}
