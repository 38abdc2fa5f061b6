//! Statistics of streams of any length, in memory that does not grow with them.

mod distinct;
mod frequent;
mod timeline;

pub use distinct::DistinctSketch;
pub use frequent::{FrequentItem, FrequentSketch};
pub use timeline::TimelineSketch;
