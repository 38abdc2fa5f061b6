//! Measures one source at a time: its requests, every algorithm's decisions, and the exact rule.

use tidegate::algorithm::{Algorithm, SlidingWindow};
use tidegate::{AlgorithmKind, Cost, Limit, MAX_COUNT, Quota, QuotaError, Timestamp};

use super::population::PopulationTraffic;
use super::tally::{AccuracyTally, AlgorithmTally, EstimateTally};
use crate::RollingCount;
use crate::decide::decide_all;
use crate::stopwatch::DecisionStopwatch;

/// Measures sources one after the other in the same buffers, so that a source fits in the cache.
#[derive(Clone)]
pub(super) struct AccuracyMeter {
    quota: Quota,
    limits: Vec<Limit>,
    /// Counts everything and never denies, so that its remaining quota reveals its estimate.
    counter: SlidingWindow,
    times: Vec<Timestamp>,
    decisions: Vec<bool>,
    trailing: RollingCount,
}

impl AccuracyMeter {
    pub(super) fn new(quota: Quota) -> Result<Self, QuotaError> {
        let limits = AlgorithmKind::ALL.iter().map(|kind| Limit::new(*kind, &quota));
        Ok(Self {
            quota,
            limits: limits.collect::<Result<_, _>>()?,
            counter: SlidingWindow::from_quota(&Quota::new(MAX_COUNT, quota.window())?)?,
            times: Vec::new(),
            decisions: Vec::new(),
            trailing: RollingCount::new(quota.window()),
        })
    }

    /// Draws the requests of one source.
    pub(super) fn draw(&mut self, traffic: &PopulationTraffic, number: u64) {
        traffic.draw(number, &mut self.times);
    }

    /// Runs every algorithm on these requests.
    pub(super) fn measure(&mut self, tally: &mut AccuracyTally) {
        tally.sources += 1;
        tally.requests += self.times.len() as u64;
        for (limit, tally) in self.limits.iter().zip(&mut tally.algorithms) {
            self.decisions.clear();
            let stopwatch = DecisionStopwatch::start();
            let bytes = decide_all(limit, &self.times, |allowed| self.decisions.push(allowed));
            tally.nanos += stopwatch.elapsed().as_nanos() as u64;
            tally.bytes += bytes as u64;
            compare_with_exact(
                &self.times,
                &self.decisions,
                self.quota.limit(),
                &mut self.trailing,
                tally,
            );
        }
        self.estimate(&mut tally.estimate);
    }

    fn estimate(&mut self, tally: &mut EstimateTally) {
        let limit = self.quota.limit();
        let mut state = Default::default();
        let (mut highest, mut highest_estimate) = (0, 0);
        self.trailing.clear();
        for now in &self.times {
            // Both include the request itself, since that sum is compared with the limit.
            let estimate = MAX_COUNT - self.counter.probe(&state, Cost::PEEK, *now).remaining + 1;
            let real = self.trailing.count(*now) + 1;
            let _ = self.counter.commit(&mut state, Cost::ONE, *now);
            self.trailing.add(*now);
            tally.wrongly_allowed += u64::from(estimate <= limit && real > limit);
            tally.wrongly_denied += u64::from(estimate > limit && real <= limit);
            tally.difference += u128::from(estimate.abs_diff(real) * 1_000_000 / real);
            highest = highest.max(real);
            highest_estimate = highest_estimate.max(estimate);
        }
        if highest > limit && highest_estimate <= limit {
            tally.missed += 1;
            tally.missed_at = tally.missed_at.max(highest * 1_000_000 / limit.max(1));
        }
        tally.false_alarms += u64::from(highest <= limit && highest_estimate > limit);
    }
}

/// Compares each decision with the exact rule, on what was admitted before it.
fn compare_with_exact(
    times: &[Timestamp],
    decisions: &[bool],
    limit: u64,
    trailing: &mut RollingCount,
    tally: &mut AlgorithmTally,
) {
    trailing.clear();
    for (now, allowed) in times.iter().zip(decisions) {
        let count = trailing.count(*now);
        let fits = count < limit;
        if *allowed {
            trailing.add(*now);
            tally.admitted += 1;
            tally.too_many += u64::from(!fits);
            tally.worst = tally.worst.max(count + 1);
        } else {
            tally.too_strict += u64::from(fits);
        }
    }
}
