//! The replay of one configuration, and its results.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;
use tidegate::config::PlannedPolicy;
use tidegate::{Attributes, Cost, Plan, RequestCharges};
use tidegate_core::Fingerprint;

use super::ReplayLimiter;
use crate::log::LogRequest;
use crate::report::clip;
use crate::sketch::{DistinctSketch, FrequentSketch, TimelineSketch};

/// A configuration, the limiter that decides by it, and the results.
#[derive(Debug)]
pub struct ReplayRun<C> {
    name: String,
    limiter: C,
    numbers: HashMap<String, usize, FixedState>,
    policies: Vec<PolicyTally>,
    requests: u64,
    denied: u64,
    unmatched: u64,
    timeline: TimelineSketch<2>,
    top: FrequentSketch<(usize, Fingerprint)>,
}

/// What one policy did.
#[derive(Clone, Debug, Default)]
pub struct PolicyTally {
    /// Its name.
    pub name: String,
    /// Requests that it applied to.
    pub requests: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Requests that it would have denied if it were enforced.
    pub shadow_denied: u64,
    /// Keys it applied to.
    pub keys: DistinctSketch,
    /// Keys for which it denied a request.
    pub denied_keys: DistinctSketch,
}

/// The decision on one request.
#[derive(Debug)]
pub(super) struct ReplayOutcome {
    pub(super) allowed: bool,
    /// The policies that deny it, and the caller of each.
    pub(super) denying: PolicyCallers,
}

/// Policies, by number, and the caller of each.
type PolicyCallers = SmallVec<[(usize, Fingerprint); 2]>;

/// Requests over time: all of them, and the denied ones.
pub(super) const OFFERED: usize = 0;
pub(super) const DENIED: usize = 1;

impl<C: ReplayLimiter> ReplayRun<C> {
    /// A run without any requests yet.
    pub fn new(name: impl Into<String>, limiter: C) -> Self {
        let policies: Vec<_> = limiter
            .plan()
            .policies()
            .iter()
            .map(|policy| PolicyTally { name: policy.name().to_owned(), ..PolicyTally::default() })
            .collect();
        let numbers = policies.iter().enumerate().map(|(n, policy)| (policy.name.clone(), n));
        Self {
            name: name.into(),
            numbers: numbers.collect(),
            policies,
            limiter,
            requests: 0,
            denied: 0,
            unmatched: 0,
            timeline: TimelineSketch::default(),
            top: FrequentSketch::new(MOST_CANDIDATES),
        }
    }

    /// The plan of the configuration.
    pub fn plan(&self) -> &Plan {
        self.limiter.plan()
    }

    /// The name of the configuration's file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limiter that decides by the plan.
    pub const fn limiter(&self) -> &C {
        &self.limiter
    }

    /// All requests.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests that are denied.
    pub const fn denied(&self) -> u64 {
        self.denied
    }

    /// Requests that no policy applies to.
    pub const fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// By policy, in the order of the file.
    pub fn policies(&self) -> &[PolicyTally] {
        &self.policies
    }

    pub(super) const fn timeline(&self) -> &TimelineSketch<2> {
        &self.timeline
    }

    /// The most denied callers, by policy and key.
    pub(super) const fn top(&self) -> &FrequentSketch<(usize, Fingerprint)> {
        &self.top
    }

    /// Decides a request and records the result.
    pub(super) fn decide(&mut self, request: &LogRequest<'_>) -> ReplayOutcome {
        let plan = self.limiter.plan().clone();
        let charges = plan.charges(request, Cost::ONE);
        let decision = self.limiter.decide(&charges, request.at);
        self.requests += 1;
        self.unmatched += u64::from(charges.is_empty());
        self.timeline.add(request.at, OFFERED);
        let (mut denying, mut watched) = (PolicyCallers::new(), PolicyCallers::new());
        let mut before = None;
        for (index, verdict) in decision.verdicts().iter().enumerate() {
            let Some(number) = self.policy_number(&charges, index) else { continue };
            let Some(subject) = charges.subject(index) else { continue };
            let is_first = before.replace(number) != Some(number);
            let is_enforced =
                charges.charges().get(index).is_some_and(|charge| charge.rule().enforced);
            // Once for each policy, however many of its limits deny.
            let against = if is_enforced { &mut denying } else { &mut watched };
            if !verdict.allowed && against.iter().all(|(other, _)| *other != number) {
                against.push((number, subject));
            }
            if let Some(tally) = self.policies.get_mut(number) {
                tally.requests += u64::from(is_first);
                tally.keys.add(subject.high());
            }
        }
        for (number, _) in watched {
            if let Some(tally) = self.policies.get_mut(number) {
                tally.shadow_denied += 1;
            }
        }
        let outcome = ReplayOutcome { allowed: decision.is_allowed(), denying };
        if !outcome.allowed {
            self.record_denial(request, &plan, &outcome);
        }
        outcome
    }

    fn record_denial(&mut self, request: &LogRequest<'_>, plan: &Plan, outcome: &ReplayOutcome) {
        self.denied += 1;
        self.timeline.add(request.at, DENIED);
        for (number, subject) in &outcome.denying {
            let Some(policy) = plan.policies().get(*number) else { continue };
            if let Some(tally) = self.policies.get_mut(*number) {
                tally.denied += 1;
                tally.denied_keys.add(subject.high());
            }
            self.top.add((*number, *subject), || caller_label(policy, request));
        }
    }

    fn policy_number(&self, charges: &RequestCharges<'_>, charge: usize) -> Option<usize> {
        charges.policy(charge).and_then(|policy| self.numbers.get(policy.name())).copied()
    }
}

/// A policy and a caller as text, separated by a tab.
pub(super) fn caller_label(policy: &PlannedPolicy, request: &LogRequest<'_>) -> String {
    let value = |name: &str| match request.attribute(name) {
        Some(value) => clip(&String::from_utf8_lossy(value), 36),
        None => "(default)".to_owned(),
    };
    let parts: Vec<String> = policy.key().map(value).collect();
    let who = if parts.is_empty() { "all together".to_owned() } else { parts.join(" ") };
    format!("{}\t{who}", policy.name())
}

/// Far more than are shown, so that the shown counts are nearly always exact.
const MOST_CANDIDATES: usize = 8_192;
