//! Random traffic: independent requests at a rate that may change.

use tidegate::{Span, Timestamp};

use super::{Arrival, TrafficSettings, TrafficStream};
use crate::random::{SeededRandom, Zipf};

/// A Poisson process. If its rate changes, requests are drawn at the highest rate and kept with a
/// probability equal to the current rate's share of it.
#[derive(Debug)]
pub(crate) struct PoissonTraffic {
    random: SeededRandom,
    shape: RateShape,
    /// Seconds since the start.
    at: f64,
    seconds: f64,
    start: Timestamp,
    /// The mean time between two requests at the highest rate, in seconds.
    gap: f64,
    sources: Zipf,
}

/// How the rate changes.
#[derive(Clone, Debug)]
pub(crate) enum RateShape {
    /// Always the same.
    Even,
    /// No requests most of the time, and bursts at five times the rate.
    OnOff { on: f64, off: f64, is_on: bool, until: f64 },
    /// Up and down once in this long.
    Diurnal(Span),
}

impl RateShape {
    /// Bursts of about a quarter of a window, a fifth of the time.
    pub(crate) fn on_off(window: Span) -> Self {
        let on = seconds(window) / 4.0;
        Self::OnOff { on, off: on * (BURST - 1.0), is_on: true, until: 0.0 }
    }

    fn highest_rate(&self) -> f64 {
        match self {
            Self::Even => 1.0,
            Self::OnOff { .. } => BURST,
            Self::Diurnal(_) => 1.0 + SWING,
        }
    }

    /// The rate at a moment, as a multiple of the average. Moments come in order.
    fn rate_at(&mut self, moment: f64, random: &mut SeededRandom) -> f64 {
        match self {
            Self::Even => 1.0,
            Self::OnOff { on, off, is_on, until } => {
                while *until <= moment {
                    *is_on = !*is_on;
                    *until += random.exponential(if *is_on { *on } else { *off });
                }
                if *is_on { BURST } else { 0.0 }
            }
            Self::Diurnal(day) => {
                let turn = std::f64::consts::TAU * moment / seconds(*day);
                1.0 - SWING * turn.cos()
            }
        }
    }
}

impl PoissonTraffic {
    pub(crate) fn new(settings: &TrafficSettings, shape: RateShape) -> Self {
        let sources = Zipf::new(settings.sources as usize, 1.0);
        let random = SeededRandom::new(settings.seed);
        Self::with_rate(settings.start, settings.span, settings.rate, shape, sources, random)
    }

    /// Traffic at a rate that does not depend on a limit.
    pub(crate) fn with_rate(
        start: Timestamp,
        span: Span,
        rate: f64,
        shape: RateShape,
        sources: Zipf,
        random: SeededRandom,
    ) -> Self {
        let gap = 1.0 / (rate * shape.highest_rate());
        Self { random, at: 0.0, seconds: seconds(span), start, gap, shape, sources }
    }
}

impl TrafficStream for PoissonTraffic {
    fn next(&mut self) -> Option<Arrival> {
        loop {
            self.at += self.random.exponential(self.gap);
            if !self.at.is_finite() || self.at >= self.seconds {
                return None;
            }
            let rate = self.shape.rate_at(self.at, &mut self.random);
            if self.random.unit() * self.shape.highest_rate() < rate {
                break;
            }
        }
        let at = self.start + Span::from_micros((self.at * 1e6) as u64);
        Some(Arrival { at, source: self.sources.pick(&mut self.random) as u32 })
    }
}

pub(crate) fn seconds(span: Span) -> f64 {
    span.as_micros() as f64 / 1e6
}

const BURST: f64 = 5.0;
/// The lowest rate is a ninth of the highest.
const SWING: f64 = 0.8;
