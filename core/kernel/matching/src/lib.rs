//! The matching index and frame splitter of Plait, without Python.
//!
//! An event passes through `wire` (from bytes to values) -> `index` -> `slots` (from values to rows) -> `segment` and
//! `matrix` (candidates) -> `test` (the decision). A filter passes through `relation::Form` -> `test` -> `class` ->
//! `delta` -> `worker` and `build` -> `segment`.

#![forbid(unsafe_code)]

mod asking;
mod build;
mod changes;
mod class;
pub mod constraint;
mod delta;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hash;
mod index;
mod inner;
mod lines;
mod matrix;
mod merging;
pub mod number;
mod ordering;
mod pool;
mod relation;
mod routing;
mod runs;
mod segment;
pub mod shape;
mod slab;
mod slots;
mod sorting;
pub mod span;
mod test;
pub mod wire;
mod worker;

pub use index::{IDS_MAX, Index, Misuse, Stats};
pub use relation::Form;
pub use routing::Matches;
