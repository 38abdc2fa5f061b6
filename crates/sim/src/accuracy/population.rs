//! Populations of sources: how fast each source is, and when its requests arrive.

use std::fmt;
use std::str::FromStr;

use tidegate::{QuotaError, Span, Timestamp};

use super::AccuracyStudy;
use crate::random::{SeededRandom, Zipf};
use crate::traffic::{PoissonTraffic, RateShape, TrafficStream as _, seconds};

/// How the rates of sources are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Population {
    /// As in real traffic: the n-th busiest source is n^0.8 times slower than the first, which is at
    /// a hundred times the limit. So no more than 316 sources are above the limit.
    Zipf,
    /// The hard case: all sources are within a factor of four of the limit, where estimates matter.
    Near,
}

impl Population {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zipf => "zipf",
            Self::Near => "near the limit",
        }
    }

    /// The rates of its groups, as multiples of the limit; empty if each source has its own.
    pub const fn rates(self) -> &'static [f64] {
        match self {
            Self::Zipf => &[],
            Self::Near => &[0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0],
        }
    }

    /// The rate of the `number`th source, as a multiple of the limit.
    fn rate(self, number: u64) -> f64 {
        match self.rates() {
            [] => BUSIEST * ((number + 1) as f64).powf(-EXPONENT),
            rates => rates.get(number as usize % rates.len()).copied().unwrap_or(1.0),
        }
    }

    /// How many of this many sources are above the limit.
    pub fn above(self, sources: u64) -> u64 {
        (0..sources).filter(|number| self.rate(*number) > 1.0).count() as u64
    }

    fn mean_rate(self, sources: u64) -> f64 {
        match self.rates() {
            [] => BUSIEST * Zipf::new(sources as usize, EXPONENT).total() / sources.max(1) as f64,
            rates => rates.iter().sum::<f64>() / rates.len() as f64,
        }
    }

    pub(super) fn traffic(self, study: &AccuracyStudy) -> PopulationTraffic {
        let limit = study.quota.limit().max(1) as f64;
        let each = study.requests as f64 / study.sources.max(1) as f64;
        // One percent more, so that chance does not leave too few requests.
        let windows = (each / (self.mean_rate(study.sources) * limit) * 1.01).max(LEAST_WINDOWS);
        let window = study.quota.window();
        PopulationTraffic {
            population: self,
            window,
            span: Span::from_micros((window.as_micros() as f64 * windows) as u64),
            per_second: limit / seconds(window),
            arrivals: study.arrivals,
            seed: study.seed ^ self as u64,
        }
    }
}

/// How the requests of one source arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalProcess {
    /// Independently.
    Poisson,
    /// In bursts at five times the rate, with silence between them.
    OnOff,
}

impl FromStr for ArrivalProcess {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        match text {
            "poisson" => Ok(Self::Poisson),
            "on-off" => Ok(Self::OnOff),
            _ => Err(QuotaError::refused(text, "unknown arrivals; expected poisson or on-off")),
        }
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Poisson => "poisson",
            Self::OnOff => "on-off",
        })
    }
}

/// Draws the requests of a population, source by source.
pub(super) struct PopulationTraffic {
    population: Population,
    window: Span,
    span: Span,
    /// Requests per second at the limit.
    per_second: f64,
    arrivals: ArrivalProcess,
    seed: u64,
}

impl PopulationTraffic {
    /// Draws the times of the `number`th source, which starts at a random moment within a window.
    pub(super) fn draw(&self, number: u64, times: &mut Vec<Timestamp>) {
        let mut random = SeededRandom::nth(self.seed, number);
        let offset = Span::from_micros(random.below(self.window.as_micros()));
        let shape = match self.arrivals {
            ArrivalProcess::Poisson => RateShape::Even,
            ArrivalProcess::OnOff => RateShape::on_off(self.window),
        };
        let rate = self.population.rate(number) * self.per_second;
        let start = SOME_DAY.window_start(self.window) + offset;
        let mut stream =
            PoissonTraffic::with_rate(start, self.span, rate, shape, Zipf::new(1, 1.0), random);
        times.clear();
        times.extend(std::iter::from_fn(|| stream.next()).map(|arrival| arrival.at));
    }
}

const BUSIEST: f64 = 100.0;
const EXPONENT: f64 = 0.8;
/// Fewer windows say little about a limit.
const LEAST_WINDOWS: f64 = 3.0;
const SOME_DAY: Timestamp = Timestamp::from_secs(1_735_689_600);
