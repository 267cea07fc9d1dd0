//! Plait's native kernel, bound to Python: conversions and locks, and nothing else.
//!
//! No `unsafe` here either: what `PyO3` needs of it is inside its macros.

mod forms;
mod index;
mod splitter;
mod values;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<index::Index>()?;
    module.add_class::<splitter::Splitter>()
}
