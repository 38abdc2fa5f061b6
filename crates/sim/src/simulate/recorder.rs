//! Records the results of a simulation, with exact counts that do not depend on the algorithm.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use tidegate::{AlgorithmKind, Span, Timestamp};

use super::{RollingCount, Simulation};
use crate::traffic::Arrival;

/// The results under one algorithm.
#[derive(Clone, Debug)]
pub struct SimulationOutcome {
    /// The algorithm.
    pub algorithm: AlgorithmKind,
    /// Requests that came.
    pub offered: u64,
    /// Requests that passed.
    pub admitted: u64,
    /// Over time, in equal parts.
    pub bins: Vec<SimulationBin>,
    /// The fullest window, of any source.
    pub worst: FullestWindow,
    /// Requests by moment; empty if there are too many moments.
    pub bursts: Vec<BurstOutcome>,
}

/// One of the equal parts of the simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulationBin {
    /// Requests that came.
    pub offered: u64,
    /// Requests that passed.
    pub admitted: u64,
    /// The fullest window of any source that ended within this bin, in admitted requests.
    pub trailing: u64,
}

/// The fullest window of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullestWindow {
    /// How many passed.
    pub count: u64,
    /// When it ended, from the start.
    pub at: Span,
}

/// All requests of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstOutcome {
    /// From the start.
    pub at: Span,
    /// Requests that came.
    pub offered: u64,
    /// Requests that passed.
    pub admitted: u64,
}

/// Records every decision, and counts each source's windows exactly.
pub(super) struct SimulationRecorder {
    outcome: SimulationOutcome,
    start: Timestamp,
    width: Span,
    window: Span,
    sources: HashMap<u32, RollingCount, FixedState>,
    /// How many bins are over.
    closed: usize,
    has_few_moments: bool,
}

impl SimulationRecorder {
    pub(super) fn new(simulation: &Simulation, algorithm: AlgorithmKind) -> Self {
        let width = Span::from_micros(simulation.settings.span.as_micros().div_ceil(BINS as u64));
        let outcome = SimulationOutcome {
            algorithm,
            offered: 0,
            admitted: 0,
            bins: vec![SimulationBin::default(); BINS],
            worst: FullestWindow::default(),
            bursts: Vec::new(),
        };
        Self {
            outcome,
            start: simulation.settings.start,
            width,
            window: simulation.quota.window(),
            sources: HashMap::default(),
            closed: 0,
            has_few_moments: true,
        }
    }

    pub(super) fn record(&mut self, arrival: Arrival, passes: bool) {
        let offset = arrival.at.since(self.start);
        let index = (offset.as_micros() / self.width.as_micros().max(1)) as usize;
        let index = index.min(BINS - 1);
        self.close_until(index);
        let new = || RollingCount::new(self.window);
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
            self.outcome.worst = FullestWindow { count, at: offset };
        }
        self.record_burst(offset, admitted);
    }

    fn record_burst(&mut self, at: Span, admitted: u64) {
        let bursts = &mut self.outcome.bursts;
        if !self.has_few_moments {
            return;
        }
        if let Some(last) = bursts.last_mut().filter(|last| last.at == at) {
            last.offered += 1;
            last.admitted += admitted;
        } else if bursts.len() < MOST_BURSTS {
            bursts.push(BurstOutcome { at, offered: 1, admitted });
        } else {
            bursts.clear();
            self.has_few_moments = false;
        }
    }

    /// Records for each finished bin what was still in the window when it ended.
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

    pub(super) fn finish(mut self) -> SimulationOutcome {
        self.close_until(BINS);
        self.outcome
    }
}

/// As many columns as a plot has.
const BINS: usize = 120;

/// Moments that fit a table.
const MOST_BURSTS: usize = 12;
