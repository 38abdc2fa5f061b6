//! Runs traffic against limits in virtual time, through the shipping algorithms and store.

mod recorder;
mod report;
mod rolling_count;

pub use recorder::{BurstOutcome, FullestWindow, SimulationBin, SimulationOutcome};
pub use rolling_count::RollingCount;

use tidegate::{
    AlgorithmKind, Limit, LocalStore, ManualClock, MemoryStore, Policy, Quota, QuotaError, Span,
    Timestamp, Verdicts,
};

use self::recorder::SimulationRecorder;
use crate::WorkProgress;
use crate::traffic::{TrafficModel, TrafficSettings, seconds};

/// A traffic model, and the limits that it runs against.
///
/// ```
/// use tidegate::AlgorithmKind;
/// use tidegate_sim::Simulation;
/// use tidegate_sim::traffic::TrafficModel;
///
/// let simulation = Simulation::new("5/minute".parse()?, TrafficModel::BurstAtBoundary);
/// let worst = |kind| simulation.run(kind).map(|outcome| outcome.worst.count);
/// assert_eq!(worst(AlgorithmKind::FixedWindow)?, 10);
/// assert_eq!(worst(AlgorithmKind::SlidingWindow)?, 5);
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The main limit: the traffic aims at it, and windows are measured by it.
    pub quota: Quota,
    /// Further limits that apply as well.
    pub others: Vec<Quota>,
    /// The traffic.
    pub model: TrafficModel,
    /// When, how much, and the seed.
    pub settings: TrafficSettings,
}

impl Simulation {
    /// A simulation with the settings that show the model best, from the start of a window.
    pub fn new(quota: Quota, model: TrafficModel) -> Self {
        let window = quota.window();
        let span = Span::from_micros(window.as_micros().saturating_mul(model.windows()));
        let rate = quota.limit() as f64 / seconds(window) * model.load();
        let settings = TrafficSettings {
            quota,
            start: SOME_DAY.window_start(window),
            span,
            rate,
            sources: model.sources(&quota),
            seed: 1,
        };
        Self { quota, others: Vec::new(), model, settings }
    }

    /// About how many requests the traffic has.
    pub fn expected_requests(&self) -> f64 {
        match self.model {
            TrafficModel::BurstAtBoundary | TrafficModel::Greedy => {
                self.quota.limit() as f64 * 10.0 * self.model.windows() as f64
            }
            TrafficModel::Crowd | TrafficModel::CrowdJitter => {
                f64::from(self.settings.sources) * 10.0
            }
            _ => self.settings.rate * seconds(self.settings.span),
        }
    }

    /// Runs the traffic against one algorithm.
    ///
    /// # Errors
    ///
    /// If the algorithm does not accept the quota.
    pub fn run(&self, algorithm: AlgorithmKind) -> Result<SimulationOutcome, QuotaError> {
        self.run_with_progress(algorithm, &WorkProgress::default())
    }

    /// Runs the traffic against one algorithm, and counts virtual microseconds as progress.
    ///
    /// # Errors
    ///
    /// If the algorithm does not accept the quota.
    pub fn run_with_progress(
        &self,
        algorithm: AlgorithmKind,
        progress: &WorkProgress,
    ) -> Result<SimulationOutcome, QuotaError> {
        let quotas = std::iter::once(&self.quota).chain(&self.others);
        let limits: Result<Vec<_>, _> = quotas.map(|quota| Limit::new(algorithm, quota)).collect();
        let policy = Policy::new("simulated", limits?)
            .map_err(|error| QuotaError::refused(self.quota, error.to_string()))?;
        let clock = ManualClock::at(self.settings.start);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let mut traffic = self.model.start(&self.settings);
        let mut recorder = SimulationRecorder::new(self, algorithm);
        let mut verdicts = Verdicts::new();
        progress.add_expected(self.settings.span.as_micros());
        let mut reached = self.settings.start;
        while let Some(arrival) = traffic.next() {
            progress.add(arrival.at.since(reached).as_micros());
            reached = reached.max(arrival.at);
            clock.set(arrival.at);
            verdicts.clear();
            let source = u64::from(arrival.source);
            let charges = policy.charges(&source, tidegate::Cost::ONE);
            let passes = store.settle_now(&charges, &mut verdicts);
            if !passes {
                let waits = verdicts.iter().filter(|verdict| !verdict.allowed);
                traffic.on_denied(arrival, waits.filter_map(|verdict| verdict.retry_after).max());
            }
            recorder.record(arrival, passes);
        }
        Ok(recorder.finish())
    }
}

/// A day on which every window of a second to a day begins: 1 January 2025.
const SOME_DAY: Timestamp = Timestamp::from_secs(1_735_689_600);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(quota: &str, model: TrafficModel, algorithm: AlgorithmKind) -> SimulationOutcome {
        Simulation::new(quota.parse().unwrap(), model).run(algorithm).unwrap()
    }

    #[test]
    fn the_table_of_the_textbook_comes_out_as_printed() {
        let bursts = |algorithm| {
            let outcome = run("5/minute", TrafficModel::BurstAtBoundary, algorithm);
            let seconds = outcome.bursts.iter().map(|burst| burst.at.as_secs_ceil());
            assert_eq!(seconds.collect::<Vec<_>>(), [59, 61]);
            outcome.bursts.iter().map(|burst| burst.admitted).collect::<Vec<_>>()
        };
        assert_eq!(bursts(AlgorithmKind::FixedWindow), [5, 5]);
        for kind in
            [AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog, AlgorithmKind::SteppedWindow]
        {
            assert_eq!(bursts(kind), [5, 0]);
        }
        assert_eq!(bursts(AlgorithmKind::TokenBucket), [5, 0]);
    }

    #[test]
    fn no_model_gets_more_than_the_bound_and_the_greedy_one_gets_all_of_it() {
        for model in TrafficModel::ALL {
            let most = |algorithm| run("100/minute", *model, algorithm).worst.count;
            assert!(most(AlgorithmKind::FixedWindow) <= 200, "{model}");
            assert!(most(AlgorithmKind::SlidingWindow) <= 199, "{model}");
            assert!(most(AlgorithmKind::SlidingLog) <= 100, "{model}");
            assert!(most(AlgorithmKind::SteppedWindow) <= 100, "{model}");
            assert!(most(AlgorithmKind::TokenBucket) <= 200, "{model}");
        }
        let greedy = |algorithm| run("100/minute", TrafficModel::Greedy, algorithm).worst.count;
        assert!(greedy(AlgorithmKind::SlidingWindow) >= 195);
        assert_eq!(greedy(AlgorithmKind::FixedWindow), 200);
        assert_eq!(greedy(AlgorithmKind::SlidingLog), 100);
        assert_eq!(greedy(AlgorithmKind::SteppedWindow), 100);
    }

    #[test]
    fn bins_add_up_and_decay() {
        let outcome = run("100/minute", TrafficModel::BurstAtBoundary, AlgorithmKind::FixedWindow);
        let sum = |part: fn(&SimulationBin) -> u64| outcome.bins.iter().map(part).sum::<u64>();
        assert_eq!(sum(|bin| bin.offered), outcome.offered);
        assert_eq!(sum(|bin| bin.admitted), outcome.admitted);
        let trailing: Vec<_> = outcome.bins.iter().map(|bin| bin.trailing).collect();
        assert_eq!(trailing.iter().max(), Some(&200));
        assert_eq!(trailing.last(), Some(&0), "all have left the window");
    }

    #[test]
    fn jitter_spreads_the_crowd() {
        let peak = |model| {
            let outcome = run("100/minute", model, AlgorithmKind::SlidingWindow);
            // Only the retries, not the first requests.
            outcome.bins.iter().skip(15).map(|bin| bin.offered).max().unwrap()
        };
        let (together, apart) = (peak(TrafficModel::Crowd), peak(TrafficModel::CrowdJitter));
        assert!(together > 3 * apart, "{together} {apart}");
    }

    #[test]
    fn more_limits_apply_beside_the_first() {
        let mut simulation = Simulation::new("100/minute".parse().unwrap(), TrafficModel::Poisson);
        simulation.others = vec!["1/second".parse().unwrap()];
        let both = simulation.run(AlgorithmKind::SlidingLog).unwrap();
        assert!(both.worst.count <= 60, "{:?}", both.worst);
    }

    #[test]
    fn a_quota_that_an_algorithm_cannot_have_is_refused() {
        let simulation =
            Simulation::new("9/minute burst 3".parse().unwrap(), TrafficModel::Poisson);
        assert!(simulation.run(AlgorithmKind::TokenBucket).is_ok());
        let error = simulation.run(AlgorithmKind::FixedWindow).unwrap_err();
        assert!(error.to_string().contains("use token-bucket"), "{error}");
    }
}
