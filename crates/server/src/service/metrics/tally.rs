//! Counts decisions that are made together, with one update of the counters.

use tidegate::{Charge, Clock, DecisionSource, Stopwatch, Timestamp, Verdict};

use super::{DecisionMetrics, MetricOutcome, ObservedCaller, ObservedDenial, PolicyCounters, slot};

/// A tally of decisions, each about one charge, of one policy or of limits that came with requests.
pub(crate) struct DecisionTally<'m> {
    metrics: &'m DecisionMetrics,
    /// The counters of the policy; `None` if the limits came with requests.
    policy: Option<&'m PolicyCounters>,
    slot: usize,
    counts: [u64; MetricOutcome::ALL.len()],
    /// The time, read once at the first denial.
    now: Option<Timestamp>,
    watch: Option<Stopwatch>,
}

impl DecisionMetrics {
    /// Starts a tally of decisions that are about to be made.
    pub(crate) fn tally<'m>(&'m self, policy: Option<&'m PolicyCounters>) -> DecisionTally<'m> {
        DecisionTally {
            metrics: self,
            policy,
            slot: slot(),
            counts: [0; MetricOutcome::ALL.len()],
            now: None,
            watch: self.begin(),
        }
    }
}

impl DecisionTally<'_> {
    /// Adds a decision.
    #[inline]
    pub(crate) fn add(&mut self, charge: &Charge<'_>, verdict: &Verdict) {
        let outcome = MetricOutcome::of_one(charge, verdict);
        if let Some(count) = self.counts.get_mut(outcome as usize) {
            *count += 1;
        }
        let Some(policy) = self.policy.filter(|_| outcome != MetricOutcome::Peeked) else { return };
        let denied = (outcome == MetricOutcome::Denied).then(|| ObservedDenial {
            wait: verdict.retry_after,
            at: *self.now.get_or_insert_with(|| self.metrics.clock.now()),
        });
        let caller = ObservedCaller { subject: charge.subject(), entity: None };
        self.metrics.observe_caller(policy, self.slot, caller, denied);
    }

    /// Ends the tally. Each decision counts with the mean duration, which includes writing the answers.
    pub(crate) fn finish(self) {
        let decisions: u64 = self.counts.iter().sum();
        if let (Some(watch), 1..) = (self.watch, decisions) {
            self.metrics.latency.record_many(watch.nanos() / decisions, decisions);
        }
        let counters = self.policy.unwrap_or(&self.metrics.ad_hoc);
        for (outcome, count) in MetricOutcome::ALL.into_iter().zip(self.counts) {
            if count > 0 {
                counters.count(self.slot, outcome, DecisionSource::Store, count);
            }
        }
    }
}
