//! Metrics of decisions. Their memory is bounded by the number of policies, not of keys.

mod counters;
mod early_returns;
mod family;
mod page;
mod process;
mod refusals;
mod slot;
mod tally;
mod text;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use crossbeam_utils::CachePadded;
use foldhash::fast::RandomState;
use tidegate::config::PlannedPolicy;
use tidegate::{
    Clock, Decision, Fingerprint, Histogram, HistogramSnapshot, Plan, RequestCharges, Span,
    Stopwatch, SystemClock, Timestamp,
};

pub(crate) use counters::{MetricOutcome, PolicyCounters};
pub use family::MetricFamily;
pub(crate) use page::page;
pub(crate) use process::ProcessUsage;
pub(crate) use refusals::RefusalCounts;
pub use refusals::{ListenerKind, RefusalReason};
pub(crate) use slot::{SLOTS, slot};

use crate::service::top::{KeyMarks, ObservedKey, TopKeys};
use early_returns::EarlyReturns;

/// Counts every decision, and times one in sixteen. Decisions that are made together are timed together.
#[derive(Debug)]
pub(crate) struct DecisionMetrics {
    policies: ArcSwap<CountersByPolicy>,
    unmatched: [CachePadded<AtomicU64>; SLOTS],
    refused: RefusalCounts,
    ad_hoc: PolicyCounters,
    latency: Histogram,
    early: EarlyReturns,
    top: TopKeys,
    clock: SystemClock,
    started: Timestamp,
}

/// The client of an observed decision.
#[derive(Clone, Copy, Debug)]
struct ObservedCaller<'a> {
    subject: Fingerprint,
    /// The key in clear, if it may be shown.
    entity: Option<&'a str>,
}

/// An observed denial: how long the client has to wait, and since when.
#[derive(Clone, Copy, Debug)]
struct ObservedDenial {
    wait: Option<Span>,
    at: Timestamp,
}

type CountersByPolicy = HashMap<Arc<str>, Arc<PolicyCounters>, RandomState>;

impl DecisionMetrics {
    pub(crate) fn new(plan: &Plan, marks: KeyMarks) -> Self {
        let clock = SystemClock::new();
        let metrics = Self {
            policies: ArcSwap::default(),
            unmatched: Default::default(),
            refused: RefusalCounts::default(),
            ad_hoc: PolicyCounters::new(""),
            latency: Histogram::new(),
            early: EarlyReturns::new(),
            top: TopKeys::new(marks),
            started: clock.now(),
            clock,
        };
        metrics.register(plan);
        metrics
    }

    /// Counts for the policies of this plan from now on. Policies that stay keep their counts.
    pub(crate) fn register(&self, plan: &Plan) {
        let old = self.policies.load();
        let counters = |policy: &PlannedPolicy| {
            let known = old.get(policy.name()).map(Arc::clone);
            let counters = known.unwrap_or_else(|| Arc::new(PolicyCounters::new(policy.name())));
            (Arc::clone(&counters.name), counters)
        };
        self.policies.store(Arc::new(plan.policies().iter().map(counters).collect()));
    }

    /// Starts timing a decision, if it is sampled. Samples are random, since regular traffic could
    /// always miss every sixteenth decision.
    pub(crate) fn begin(&self) -> Option<Stopwatch> {
        (fastrand::u8(..) < u8::MAX / TIMED_ONE_IN + 1).then(Stopwatch::start)
    }

    /// Records a decision, and how long it took if it was timed.
    pub(crate) fn observe(
        &self,
        charges: &RequestCharges<'_>,
        decision: &Decision,
        nanos: Option<u64>,
    ) {
        if let Some(nanos) = nanos {
            self.latency.record(nanos);
        }
        let slot = slot();
        if let Some(policy) = charges.unlimited_by() {
            if let Some(counters) = self.policies.load().get(policy.name()) {
                counters.count(slot, MetricOutcome::Allowed, decision.source(), 1);
            }
            return;
        }
        if charges.is_empty() {
            if let Some(unmatched) = self.unmatched.get(slot) {
                unmatched.fetch_add(1, Ordering::Relaxed);
            }
            return;
        }
        let policies = self.policies.load();
        let mut first = 0;
        while first < charges.charges().len() {
            let Some(policy) = charges.policy(first) else {
                // A limit that came with the request.
                let outcome = MetricOutcome::of(charges, decision, first..first + 1);
                self.ad_hoc.count(slot, outcome, decision.source(), 1);
                first += 1;
                continue;
            };
            let is_same_policy = |index: &usize| {
                charges.policy(*index).is_some_and(|other| std::ptr::eq(other, policy))
            };
            // The charges of a policy are contiguous.
            let end = (first..charges.charges().len()).find(|index| !is_same_policy(index));
            let indices = first..end.unwrap_or(charges.charges().len());
            first = indices.end;
            if let Some(counters) = policies.get(policy.name()) {
                self.observe_policy(counters, slot, charges, decision, indices);
            }
        }
    }

    fn observe_policy(
        &self,
        counters: &PolicyCounters,
        slot: usize,
        charges: &RequestCharges<'_>,
        decision: &Decision,
        indices: Range<usize>,
    ) {
        let outcome = MetricOutcome::of(charges, decision, indices.clone());
        counters.count(slot, outcome, decision.source(), 1);
        let Some(subject) =
            charges.subject(indices.start).filter(|_| outcome != MetricOutcome::Peeked)
        else {
            return;
        };
        let caller = ObservedCaller { subject, entity: charges.entity(indices.start) };
        let denied = (outcome == MetricOutcome::Denied)
            .then(|| ObservedDenial { wait: wait(decision, indices), at: self.clock.now() });
        self.observe_caller(counters, slot, caller, denied);
    }

    /// Records the client of a decision, and whether it returned early after a denial.
    fn observe_caller(
        &self,
        counters: &PolicyCounters,
        slot: usize,
        caller: ObservedCaller<'_>,
        denied: Option<ObservedDenial>,
    ) {
        let ObservedCaller { subject, entity } = caller;
        let who = subject ^ counters.salt;
        if let Some(ObservedDenial { wait: Some(wait), at }) = denied
            && self.early.record_denial(who, wait, at)
        {
            counters.count_early();
        }
        let seen = ObservedKey { who, policy: &counters.name, subject, entity };
        self.top.observe(slot, seen, denied.is_some());
    }

    /// The counters of a policy that is in use.
    pub(crate) fn policy(&self, name: &str) -> Option<Arc<PolicyCounters>> {
        self.policies.load().get(name).map(Arc::clone)
    }

    /// Decisions by limits that came with requests.
    pub(crate) const fn ad_hoc(&self) -> &PolicyCounters {
        &self.ad_hoc
    }

    /// Requests that no policy applied to.
    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Requests that got no decision.
    pub(crate) const fn refused(&self) -> &RefusalCounts {
        &self.refused
    }

    pub(crate) fn latency(&self) -> HistogramSnapshot {
        self.latency.snapshot()
    }

    pub(crate) const fn top(&self) -> &TopKeys {
        &self.top
    }

    pub(crate) const fn started(&self) -> Timestamp {
        self.started
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

/// The longest wait of one policy's charges, or else of the whole decision.
fn wait(decision: &Decision, indices: Range<usize>) -> Option<Span> {
    let waits = decision.verdicts().get(indices)?.iter().filter_map(|verdict| verdict.retry_after);
    waits.max().or_else(|| decision.retry_span())
}

const TIMED_ONE_IN: u8 = 16;
