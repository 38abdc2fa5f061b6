//! Traffic against limits, in virtual time: through the shipping algorithms and the shipping store.

mod report;
mod trailing;

pub use trailing::Trailing;

use std::collections::HashMap;

use foldhash::fast::FixedState;
use tidegate::{
    AlgorithmKind, Limit, LocalStore, ManualClock, MemoryStore, Policy, Quota, QuotaError, Span,
    Timestamp, Verdicts,
};

use crate::traffic::{Arrival, Model, Setting, seconds};

/// What is tried.
///
/// ```
/// use tidegate::AlgorithmKind;
/// use tidegate_sim::Simulation;
/// use tidegate_sim::traffic::Model;
///
/// let simulation = Simulation::new("5/minute".parse()?, Model::BurstAtBoundary);
/// let worst = |kind| simulation.run(kind).map(|outcome| outcome.worst.count);
/// assert_eq!(worst(AlgorithmKind::FixedWindow)?, 10);
/// assert_eq!(worst(AlgorithmKind::SlidingWindow)?, 5);
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The limit that counts: the traffic aims at it, and windows are measured by it.
    pub quota: Quota,
    /// More limits that apply beside it.
    pub others: Vec<Quota>,
    /// The traffic.
    pub model: Model,
    /// When, how much, and the seed.
    pub setting: Setting,
}

/// What came of it under one algorithm.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The algorithm.
    pub algorithm: AlgorithmKind,
    /// Requests that came.
    pub offered: u64,
    /// Requests that passed.
    pub admitted: u64,
    /// Over time, in equal parts.
    pub bins: Vec<Bin>,
    /// The fullest window, of any source.
    pub worst: Worst,
    /// Requests by their moment, while there are few moments: when, how many, how many passed.
    pub bursts: Vec<Burst>,
}

/// A part of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Requests that came.
    pub offered: u64,
    /// Requests that passed.
    pub admitted: u64,
    /// The most of any source that had passed within one window before some moment of it.
    pub trailing: u64,
}

/// The fullest window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// How many passed.
    pub count: u64,
    /// When it ended, from the start.
    pub at: Span,
}

/// All requests of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// From the start.
    pub at: Span,
    /// Requests that came.
    pub offered: u64,
    /// Requests that passed.
    pub admitted: u64,
}

impl Simulation {
    /// As the model shows best, beginning with a window.
    pub fn new(quota: Quota, model: Model) -> Self {
        let window = quota.window();
        let span = Span::from_micros(window.as_micros().saturating_mul(model.windows()));
        let rate = quota.limit() as f64 / seconds(window) * model.load();
        let setting = Setting {
            quota,
            start: SOME_DAY.window_start(window),
            span,
            rate,
            sources: model.sources(&quota),
            seed: 1,
        };
        Self { quota, others: Vec::new(), model, setting }
    }

    /// Requests that are to be expected, about.
    pub fn expected(&self) -> f64 {
        match self.model {
            Model::BurstAtBoundary | Model::Greedy => {
                self.quota.limit() as f64 * 10.0 * self.model.windows() as f64
            }
            Model::Crowd | Model::CrowdJitter => f64::from(self.setting.sources) * 10.0,
            _ => self.setting.rate * seconds(self.setting.span),
        }
    }

    /// Runs the traffic against one algorithm.
    ///
    /// # Errors
    ///
    /// When the algorithm does not take the quota.
    pub fn run(&self, algorithm: AlgorithmKind) -> Result<Outcome, QuotaError> {
        let quotas = std::iter::once(&self.quota).chain(&self.others);
        let limits: Result<Vec<_>, _> = quotas.map(|quota| Limit::new(algorithm, quota)).collect();
        let policy = Policy::new("simulated", limits?)
            .map_err(|error| QuotaError::refused(self.quota, error.to_string()))?;
        let clock = ManualClock::at(self.setting.start);
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let mut traffic = self.model.start(&self.setting);
        let mut witness = Witness::new(self, algorithm);
        let mut verdicts = Verdicts::new();
        while let Some(arrival) = traffic.next() {
            clock.set(arrival.at);
            verdicts.clear();
            let source = u64::from(arrival.source);
            let charges = policy.charges(&source, tidegate::Cost::ONE);
            let passes = store.settle_now(&charges, &mut verdicts);
            if !passes {
                let waits = verdicts.iter().filter(|verdict| !verdict.allowed);
                traffic.denied(arrival, waits.filter_map(|verdict| verdict.retry_after).max());
            }
            witness.saw(arrival, passes);
        }
        Ok(witness.outcome())
    }
}

/// Watches what happens, and knows the truth.
struct Witness {
    outcome: Outcome,
    start: Timestamp,
    width: Span,
    window: Span,
    sources: HashMap<u32, Trailing, FixedState>,
    /// Bins that are over.
    closed: usize,
    has_few_moments: bool,
}

impl Witness {
    fn new(simulation: &Simulation, algorithm: AlgorithmKind) -> Self {
        let width = Span::from_micros(simulation.setting.span.as_micros().div_ceil(BINS as u64));
        let outcome = Outcome {
            algorithm,
            offered: 0,
            admitted: 0,
            bins: vec![Bin::default(); BINS],
            worst: Worst::default(),
            bursts: Vec::new(),
        };
        Self {
            outcome,
            start: simulation.setting.start,
            width,
            window: simulation.quota.window(),
            sources: HashMap::default(),
            closed: 0,
            has_few_moments: true,
        }
    }

    fn saw(&mut self, arrival: Arrival, passes: bool) {
        let offset = arrival.at.since(self.start);
        let index = (offset.as_micros() / self.width.as_micros().max(1)) as usize;
        let index = index.min(BINS - 1);
        self.close_until(index);
        let new = || Trailing::new(self.window);
        let trailing = self.sources.entry(arrival.source).or_insert_with(new);
        if passes {
            trailing.add(arrival.at);
        }
        let count = trailing.count(arrival.at);
        let admitted = u64::from(passes);
        self.outcome.offered += 1;
        self.outcome.admitted += admitted;
        if let Some(bin) = self.outcome.bins.get_mut(index) {
            bin.offered += 1;
            bin.admitted += admitted;
            bin.trailing = bin.trailing.max(count);
        }
        if count > self.outcome.worst.count {
            self.outcome.worst = Worst { count, at: offset };
        }
        self.note_burst(offset, admitted);
    }

    fn note_burst(&mut self, at: Span, admitted: u64) {
        let bursts = &mut self.outcome.bursts;
        if !self.has_few_moments {
            return;
        }
        if let Some(last) = bursts.last_mut().filter(|last| last.at == at) {
            last.offered += 1;
            last.admitted += admitted;
        } else if bursts.len() < MOST_BURSTS {
            bursts.push(Burst { at, offered: 1, admitted });
        } else {
            bursts.clear();
            self.has_few_moments = false;
        }
    }

    /// Says of each bin that is over what was still in the window when it ended.
    fn close_until(&mut self, index: usize) {
        while self.closed < index {
            let ended = self.closed as u64 + 1;
            let end = self.start + Span::from_micros(self.width.as_micros().saturating_mul(ended));
            let most = self.sources.values_mut().map(|trailing| trailing.count(end)).max();
            if let Some(bin) = self.outcome.bins.get_mut(self.closed) {
                bin.trailing = bin.trailing.max(most.unwrap_or(0));
            }
            self.closed += 1;
        }
    }

    fn outcome(mut self) -> Outcome {
        self.close_until(BINS);
        self.outcome
    }
}

/// A day on which every window of a second to a day begins: 1 January 2025.
const SOME_DAY: Timestamp = Timestamp::from_secs(1_735_689_600);

/// As many columns as a plot has.
const BINS: usize = 120;

/// Moments that fit a table.
const MOST_BURSTS: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(quota: &str, model: Model, algorithm: AlgorithmKind) -> Outcome {
        Simulation::new(quota.parse().unwrap(), model).run(algorithm).unwrap()
    }

    #[test]
    fn the_table_of_the_textbook_comes_out_as_printed() {
        let bursts = |algorithm| {
            let outcome = run("5/minute", Model::BurstAtBoundary, algorithm);
            let seconds = outcome.bursts.iter().map(|burst| burst.at.as_secs_ceil());
            assert_eq!(seconds.collect::<Vec<_>>(), [59, 61]);
            outcome.bursts.iter().map(|burst| burst.admitted).collect::<Vec<_>>()
        };
        assert_eq!(bursts(AlgorithmKind::FixedWindow), [5, 5]);
        for kind in [AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog] {
            assert_eq!(bursts(kind), [5, 0]);
        }
        assert_eq!(bursts(AlgorithmKind::TokenBucket), [5, 0]);
    }

    #[test]
    fn no_model_gets_more_than_the_bound_and_the_greedy_one_gets_all_of_it() {
        for model in Model::ALL {
            let most = |algorithm| run("100/minute", *model, algorithm).worst.count;
            assert!(most(AlgorithmKind::FixedWindow) <= 200, "{model}");
            assert!(most(AlgorithmKind::SlidingWindow) <= 199, "{model}");
            assert!(most(AlgorithmKind::SlidingLog) <= 100, "{model}");
            assert!(most(AlgorithmKind::TokenBucket) <= 200, "{model}");
        }
        let greedy = |algorithm| run("100/minute", Model::Greedy, algorithm).worst.count;
        assert!(greedy(AlgorithmKind::SlidingWindow) >= 195);
        assert_eq!(greedy(AlgorithmKind::FixedWindow), 200);
        assert_eq!(greedy(AlgorithmKind::SlidingLog), 100);
    }

    #[test]
    fn bins_add_up_and_decay() {
        let outcome = run("100/minute", Model::BurstAtBoundary, AlgorithmKind::FixedWindow);
        let sum = |part: fn(&Bin) -> u64| outcome.bins.iter().map(part).sum::<u64>();
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
            // Not when they first come: when they come back.
            outcome.bins.iter().skip(15).map(|bin| bin.offered).max().unwrap()
        };
        let (together, apart) = (peak(Model::Crowd), peak(Model::CrowdJitter));
        assert!(together > 3 * apart, "{together} {apart}");
    }

    #[test]
    fn more_limits_apply_beside_the_first() {
        let mut simulation = Simulation::new("100/minute".parse().unwrap(), Model::Poisson);
        simulation.others = vec!["1/second".parse().unwrap()];
        let both = simulation.run(AlgorithmKind::SlidingLog).unwrap();
        assert!(both.worst.count <= 60, "{:?}", both.worst);
    }

    #[test]
    fn a_quota_that_an_algorithm_cannot_have_is_refused() {
        let simulation = Simulation::new("9/minute burst 3".parse().unwrap(), Model::Poisson);
        assert!(simulation.run(AlgorithmKind::TokenBucket).is_ok());
        let error = simulation.run(AlgorithmKind::FixedWindow).unwrap_err();
        assert!(error.to_string().contains("use token-bucket"), "{error}");
    }
}
