//! Rate limiting as pure functions: state, cost and time in, a verdict out.
//!
//! This crate decides and does nothing else. It reads no clock, opens no socket, never sees a key
//! as text and has no dependencies, so that every decision can be replayed, compared with a model
//! and reproduced in another language. Stores keep the states; see `tidegate-store`. Applications
//! depend on `tidegate`, which re-exports what they need from here.
//!
//! | algorithm | most admitted in any span d up to the window W | memory per key |
//! |---|---|---|
//! | [`FixedWindow`](algorithm::FixedWindow) | 2 L | constant |
//! | [`SlidingWindow`](algorithm::SlidingWindow) | L (1 + d/W), below 2 L | constant |
//! | [`SlidingLog`](algorithm::SlidingLog) | L | grows with the limit |
//! | [`TokenBucket`](algorithm::TokenBucket) | burst + L d/W | constant |
//! | [`SteppedWindow`](algorithm::SteppedWindow) | L | a count for each step |
//!
//! No decision uses floating point: times are whole microseconds, and products are 128 bits wide.
//!
//! ```
//! use tidegate_core::algorithm::{Algorithm, TokenBucket};
//! use tidegate_core::{Cost, Timestamp};
//!
//! let limit = TokenBucket::from_quota(&"10/second burst 20".parse()?)?;
//! let mut state = Default::default();
//! let now = Timestamp::from_secs(1_000);
//!
//! let verdict = limit.probe(&state, Cost::ONE, now);
//! assert!(verdict.allowed);
//! let verdict = limit.commit(&mut state, Cost::ONE, now);
//! assert_eq!(verdict.remaining, 19);
//! # Ok::<(), tidegate_core::QuotaError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod algorithm;
mod calendar;
mod charge;
mod civil_date;
mod cost;
mod key_template;
mod limit;
mod parse;
mod quota;
mod random;
mod settle;
mod state;
pub mod text;
mod time;
mod verdict;

pub use calendar::CalendarPeriod;
pub use charge::{Charge, ChargeNames, Fingerprint, NameScheme, Rule};
pub use civil_date::CivilDate;
pub use cost::{Cost, CostTooLarge, MAX_COUNT};
pub use key_template::{KeyPlaceholder, KeyTemplate, KeyTemplateError, TemplatePart, WindowName};
pub use limit::{AlgorithmKind, Limit};
pub use quota::{Quota, QuotaError};
pub use random::SplitMix;
pub use settle::{ChargeAccounts, pays, settle};
pub use state::CounterState;
pub use time::{Span, Timestamp};
pub use verdict::Verdict;
