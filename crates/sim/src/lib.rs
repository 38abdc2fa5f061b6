//! Tries limits before they are in effect: virtual time, traffic models, accuracy, log replay, plots.
//!
//! Everything here drives the shipping algorithms and stores, never a model of them:
//!
//! - [`Simulation`]: synthetic traffic against limits, beside an exact count.
//! - [`AccuracyStudy`]: how often an algorithm is wrong, over a large population.
//! - [`LogReplay`]: what a configuration would have done to the requests of a log.
//! - [`LimitSearch`]: the smallest limit that denies no more of them than you tolerate.
//! - [`report`]: findings as text, HTML, SVG and JSON.
//!
//! ```
//! use tidegate::AlgorithmKind;
//! use tidegate_sim::Simulation;
//! use tidegate_sim::traffic::TrafficModel;
//!
//! let simulation = Simulation::new("100/minute".parse()?, TrafficModel::BurstAtBoundary);
//! let outcome = simulation.run(AlgorithmKind::FixedWindow)?;
//! assert_eq!(outcome.worst.count, 200);
//! println!("{}", simulation.report(&[outcome]).text());
//! # Ok::<(), tidegate::QuotaError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![allow(clippy::float_arithmetic, reason = "statistics and plots are not decisions")]

mod accuracy;
mod decide;
pub mod log;
mod progress;
mod random;
mod replay;
pub mod report;
mod simulate;
pub mod sketch;
mod stopwatch;
mod suggest;
pub mod traffic;

pub use accuracy::{
    AccuracyFindings, AccuracyGroup, AccuracyStudy, AccuracyTally, AlgorithmTally, ArrivalProcess,
    EstimateTally, Population,
};
pub use progress::WorkProgress;
pub use random::{SeededRandom, Zipf};
pub use replay::{
    LogReplay, MemoryReplayLimiter, PolicyTally, ReplayChanges, ReplayError, ReplayFindings,
    ReplayLimiter, ReplayRun,
};
pub use simulate::{
    BurstOutcome, FullestWindow, RollingCount, Simulation, SimulationBin, SimulationOutcome,
};
pub use suggest::{LimitSearch, LimitSuggestion, SuggestError, SuggestedLimit, ToleranceBasis};
