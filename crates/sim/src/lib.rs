//! Sees traffic before it comes: virtual time, traffic models, accuracy, log replay, plots.
//!
//! Everything here drives the algorithms and stores that ship, never a model of them:
//!
//! - [`Simulation`]: synthetic traffic against limits, and the truth beside it.
//! - [`report`]: findings as text, HTML, SVG and JSON.
//!
//! ```
//! use tidegate::AlgorithmKind;
//! use tidegate_sim::Simulation;
//! use tidegate_sim::traffic::Model;
//!
//! let simulation = Simulation::new("100/minute".parse()?, Model::BurstAtBoundary);
//! let outcome = simulation.run(AlgorithmKind::FixedWindow)?;
//! assert_eq!(outcome.worst.count, 200);
//! println!("{}", simulation.report(&[outcome]).text());
//! # Ok::<(), tidegate::QuotaError>(())
//! ```

#![allow(clippy::float_arithmetic, reason = "statistics and plots are not decisions")]

pub mod log;
mod progress;
mod random;
pub mod report;
mod simulate;
pub mod sketch;
mod stopwatch;
pub mod traffic;

pub use progress::Progress;
pub use random::{Random, Zipf};
pub use simulate::{Bin, Burst, Outcome, Simulation, Trailing, Worst};
