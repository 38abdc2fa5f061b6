//! Judges any rate limiter from outside.
//!
//! It knows the rule that the limiter says it keeps ([`JudgedRule`]), and what the limiter answered and
//! when ([`CallHistory`]). It finds answers that no execution of the rule explains ([`Judge`]), each
//! with the smallest evidence that it can find ([`Counterexample`]). It never guesses: between the
//! moment a call was sent and the moment its answer was there, anything may have happened, and what can
//! be explained is explained.
//!
//! [`LimiterRun`] makes a history: it calls a limiter over HTTP, gRPC, the Redis protocol or a pipe, with
//! bursts at the edges of windows, quiet times and storms of denials ([`WorkloadPlan`]).
//!
//! Everything takes near-linear time: sums over time, sorted once, and one sweep for each rule.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod adapter;
mod admission;
mod bounds;
mod checks;
mod cost_curve;
mod evidence;
mod finding;
mod history;
mod judge;
mod rule;
mod run;
mod shrink;
mod wall_clock;
mod workload;

pub use adapter::{
    AdapterError, AdmittedBy, AnswerField, HttpTemplate, LimiterTarget, RespTemplate, RlsTemplate,
};
pub use finding::FindingKind;
pub use history::{
    CallHistory, CallVerdict, HistoryError, HistoryRecorder, JudgedCall, StatedWait,
};
pub use judge::{Judge, Judgement};
pub use rule::JudgedRule;
pub use run::LimiterRun;
pub use shrink::Counterexample;
pub use workload::{PlannedCall, WorkloadPlan};
