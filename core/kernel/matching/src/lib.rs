//! The matching index and frame splitter of Plait, without Python.
//!
//! An event passes through `wire` (from bytes to values) -> `index` -> `slots` (from values to rows) -> `segment` and
//! `matrix` (candidates) -> `test` (the decision). A filter passes through `relation::Form` -> `test` -> `class` ->
//! `delta` -> `merge_worker` and `build` -> `segment`.

#![forbid(unsafe_code)]

mod attribute_test;
mod build;
mod cache_lines;
mod class;
mod class_changes;
mod conjunction_order;
pub mod constraint;
mod covering;
mod delta;
mod filter_texts;
mod frame_matching;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod hash;
mod id_sort;
mod index;
mod inner_hulls;
mod matrix;
mod merge_schedule;
mod merge_worker;
pub mod number;
mod relation_queries;
mod runs;
mod segment;
pub mod shape;
mod slab;
mod slots;
mod text_pool;
pub mod value_set;
pub mod wire;

pub use covering::Form;
pub use frame_matching::Matches;
pub use index::{IDS_MAX, Index, Misuse, Stats};
pub use merge_worker::GiveBack;
