//! What tests of the workspace share with the tasks.

pub mod book;
pub mod figures;

/// Runs the programs in the README and docs as tests. Not in `tidegate`, whose package contains neither.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/rust.md")]
struct DocumentTests;
