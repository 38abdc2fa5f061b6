//! What a rule makes of the evidence: how much room there was for a call at least and at most, and how
//! long it had to wait.
//!
//! *At most* is what remains if only what is certain was charged, each charge as early as it can have
//! been. *At least* is what remains if all that is possible was charged, as late as it can have been.
//! An answer outside of these bounds is wrong in every execution.

mod bucket;
mod rolling;
mod windows;

use crate::evidence::KeyEvidence;
use crate::rule::{JudgedRule, RulePromise};

/// How much room there was for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoomBounds {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// How long a denied call had to wait, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitBounds {
    pub(crate) least: i64,
    /// `None` if there is no bound.
    pub(crate) most: Option<i64>,
}

impl WaitBounds {
    /// When nothing is known.
    const UNKNOWN: Self = Self { least: 0, most: None };

    /// Either of both.
    fn or(self, other: Self) -> Self {
        let most = self.most.zip(other.most).map(|(one, two)| one.max(two));
        Self { least: self.least.min(other.least), most }
    }
}

/// A rule, applied to a key's evidence.
pub(crate) trait UsageModel {
    /// The room before the call.
    fn room(&self, call: usize) -> RoomBounds;

    /// The wait of a denied call, whose cost is within the capacity.
    fn wait(&self, call: usize) -> WaitBounds;
}

/// What the rule makes of the evidence; `None` if it promises nothing about single calls. `is_capped`
/// says that no more than the capacity was ever charged.
pub(crate) fn usage_model<'a>(
    rule: &'a JudgedRule,
    evidence: &'a KeyEvidence<'a>,
    is_capped: bool,
) -> Option<Box<dyn UsageModel + 'a>> {
    match rule.promise {
        RulePromise::AtMost => None,
        RulePromise::SlidingLog | RulePromise::SteppedWindow { .. } => {
            Some(Box::new(rolling::RollingUsage { rule, evidence }))
        }
        RulePromise::LooseFixedWindow => Some(Box::new(rolling::LooseUsage { rule, evidence })),
        RulePromise::FixedWindow => Some(Box::new(windows::WindowUsage { rule, evidence })),
        RulePromise::SlidingWindow => Some(Box::new(windows::SlidingUsage { rule, evidence })),
        RulePromise::TokenBucket { burst } => {
            Some(Box::new(bucket::BucketUsage::new(rule, burst, evidence, is_capped)))
        }
    }
}

/// What a limit has left.
fn left(limit: u64, used: u128) -> u64 {
    u64::try_from(u128::from(limit).saturating_sub(used)).unwrap_or(0)
}
