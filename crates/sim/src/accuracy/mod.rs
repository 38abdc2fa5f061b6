//! How often an algorithm is wrong, and what it costs: measured over a large population.
//!
//! A decision is *wrong* if it differs from the exact rule, applied to what the same algorithm
//! admitted before: allowed although the window was full, or denied although it was not. Each
//! decision is compared with its own past, so that one mistake is not counted again in every
//! decision that follows.
//!
//! The *estimate* is the sliding-window counter as Cloudflare measured it: every request is
//! counted, whether it passes or not, and the estimated rate is compared with the real one.

mod meter;
mod population;
mod report;
mod tally;

pub use population::{ArrivalProcess, Population};
pub use tally::{AccuracyTally, AlgorithmTally, EstimateTally};

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate::{Quota, QuotaError};

use self::meter::AccuracyMeter;
use crate::WorkProgress;

/// A study of all algorithms over two populations.
///
/// ```
/// use tidegate_sim::{AccuracyStudy, WorkProgress};
///
/// let quota = "100/minute".parse()?;
/// let accuracy = AccuracyStudy { sources: 100, requests: 50_000, ..AccuracyStudy::new(quota) };
/// let findings = accuracy.run(&WorkProgress::default())?;
/// assert!(findings.total(tidegate_sim::Population::Near).requests > 10_000);
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct AccuracyStudy {
    /// The limit.
    pub quota: Quota,
    /// Sources in each population.
    pub sources: u64,
    /// The approximate number of requests of all of them together.
    pub requests: u64,
    /// How the requests of a source arrive.
    pub arrivals: ArrivalProcess,
    /// The seed for everything random. The same seed gives the same figures, on any number of
    /// cores.
    pub seed: u64,
}

impl AccuracyStudy {
    /// As many sources as Cloudflare had, and a quarter of the requests.
    pub const fn new(quota: Quota) -> Self {
        Self {
            quota,
            sources: 270_000,
            requests: 100_000_000,
            arrivals: ArrivalProcess::Poisson,
            seed: 1,
        }
    }
}

/// The results of a study.
#[derive(Clone, Debug)]
pub struct AccuracyFindings {
    /// The study.
    pub study: AccuracyStudy,
    /// By population, and within a population by the rate of its sources.
    pub groups: Vec<AccuracyGroup>,
}

/// The sources of a population that have the same rate.
#[derive(Clone, Debug)]
pub struct AccuracyGroup {
    /// The population they belong to.
    pub population: Population,
    /// Their rate, as a multiple of the limit; `None` if each source has its own rate.
    pub rate: Option<f64>,
    /// The results.
    pub tally: AccuracyTally,
}

impl AccuracyFindings {
    /// The sum over a population.
    pub fn total(&self, population: Population) -> AccuracyTally {
        let groups = self.groups.iter().filter(|group| group.population == population);
        groups.fold(AccuracyTally::default(), |sum, group| sum.merged(&group.tally))
    }
}

impl AccuracyStudy {
    /// Runs the study on all cores.
    ///
    /// # Errors
    ///
    /// If an algorithm does not accept the quota.
    pub fn run(&self, progress: &WorkProgress) -> Result<AccuracyFindings, QuotaError> {
        let populations = [Population::Zipf, Population::Near];
        progress.add_expected(self.sources.saturating_mul(populations.len() as u64));
        let meter = AccuracyMeter::new(self.quota)?;
        let mut groups = Vec::new();
        for population in populations {
            let tallies = self.measure(population, &meter, progress);
            let rates = population.rates();
            let rate = |index: usize| rates.get(index).copied();
            groups.extend(tallies.into_iter().enumerate().map(|(index, tally)| AccuracyGroup {
                population,
                rate: rate(index),
                tally,
            }));
        }
        Ok(AccuracyFindings { study: *self, groups })
    }

    /// A tally for each group. Sources are independent of each other, and sums do not depend on
    /// their order, so it does not matter which thread measures which.
    fn measure(
        &self,
        population: Population,
        meter: &AccuracyMeter,
        progress: &WorkProgress,
    ) -> Vec<AccuracyTally> {
        let groups = population.rates().len().max(1);
        let traffic = population.traffic(self);
        let next = AtomicU64::new(0);
        let work = || {
            let mut meter = meter.clone();
            let mut tallies = vec![AccuracyTally::default(); groups];
            loop {
                let first = next.fetch_add(BATCH, Ordering::Relaxed);
                if first >= self.sources {
                    return tallies;
                }
                let last = (first + BATCH).min(self.sources);
                for number in first..last {
                    meter.draw(&traffic, number);
                    if let Some(tally) = tallies.get_mut(number as usize % groups) {
                        meter.measure(tally);
                    }
                }
                progress.add(last - first);
            }
        };
        thread::scope(|scope| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            let parts = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            parts.fold(vec![AccuracyTally::default(); groups], |sums, part| {
                sums.iter().zip(&part).map(|(sum, part)| sum.merged(part)).collect()
            })
        })
    }
}

/// Sources that a thread takes at a time.
const BATCH: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::AlgorithmKind;

    fn findings(arrivals: ArrivalProcess) -> AccuracyFindings {
        let quota = "100/minute".parse().unwrap();
        let accuracy = AccuracyStudy {
            sources: 900,
            requests: 400_000,
            arrivals,
            ..AccuracyStudy::new(quota)
        };
        accuracy.run(&WorkProgress::default()).unwrap()
    }

    fn of(tally: &AccuracyTally, kind: AlgorithmKind) -> AlgorithmTally {
        tally.algorithms[kind as usize]
    }

    #[test]
    fn the_exact_log_is_never_wrong_and_the_others_stay_within_their_bounds() {
        for arrivals in [ArrivalProcess::Poisson, ArrivalProcess::OnOff] {
            for group in findings(arrivals).groups {
                let log = of(&group.tally, AlgorithmKind::SlidingLog);
                assert_eq!((log.too_many, log.too_strict), (0, 0));
                assert!(log.worst <= 100);
                assert!(of(&group.tally, AlgorithmKind::SlidingWindow).worst < 200);
                assert!(of(&group.tally, AlgorithmKind::FixedWindow).worst <= 200);
                // A unit leaves late, but never early.
                let stepped = of(&group.tally, AlgorithmKind::SteppedWindow);
                assert!(stepped.too_many == 0 && stepped.worst <= 100);
                // A window that is full was filled within the last one, which is exact.
                assert_eq!(of(&group.tally, AlgorithmKind::FixedWindow).too_strict, 0);
            }
        }
    }

    #[test]
    fn far_below_the_limit_nobody_is_ever_wrong() {
        let findings = findings(ArrivalProcess::Poisson);
        let slow = findings.groups.iter().find(|group| group.rate == Some(0.25)).unwrap();
        for tally in &slow.tally.algorithms {
            assert_eq!((tally.too_many, tally.too_strict), (0, 0));
        }
        assert_eq!(slow.tally.estimate.wrongly_allowed + slow.tally.estimate.wrongly_denied, 0);
    }

    #[test]
    fn as_many_requests_come_as_were_asked_for() {
        let findings = findings(ArrivalProcess::Poisson);
        for population in [Population::Zipf, Population::Near] {
            let total = findings.total(population);
            assert!((380_000..500_000).contains(&total.requests), "{}", total.requests);
            assert_eq!(total.sources, 900);
        }
    }

    #[test]
    fn figures_are_the_same_in_every_run() {
        let strip = |findings: AccuracyFindings| {
            let totals = [Population::Zipf, Population::Near].map(|one| findings.total(one));
            totals.map(|mut tally| {
                tally.algorithms.iter_mut().for_each(|one| one.nanos = 0);
                tally
            })
        };
        assert_eq!(
            strip(findings(ArrivalProcess::Poisson)),
            strip(findings(ArrivalProcess::Poisson))
        );
    }
}
