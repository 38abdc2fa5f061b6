//! Statistics of streams of any length, in memory that does not grow with them.

mod distinct;
mod frequent;
mod timeline;

pub use distinct::Distinct;
pub use frequent::{Frequent, Hitter};
pub use timeline::Timeline;
