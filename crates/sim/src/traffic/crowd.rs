//! A crowd of clients that retry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate::{Span, Timestamp};

use super::{Arrival, TrafficSettings, TrafficStream};
use crate::SeededRandom;

/// Clients that arrive within a second, share one limit, and come back when they are told to. With
/// jitter they add a delay of their own, so that they do not all come back together.
pub(super) struct CrowdTraffic {
    waiting: BinaryHeap<Reverse<Timestamp>>,
    end: Timestamp,
    jitter: Option<Span>,
    random: SeededRandom,
}

impl CrowdTraffic {
    pub(super) fn new(setting: &TrafficSettings, jitter: bool) -> Self {
        let mut random = SeededRandom::new(setting.seed);
        let window = setting.quota.window();
        let first = Span::from_micros(window.as_micros() / 60).min(Span::from_secs(1));
        let arrival = |_| {
            let offset = Span::from_micros(random.below(first.as_micros().max(1)));
            Reverse(setting.start + offset)
        };
        let waiting = (0..setting.sources).map(arrival).collect();
        let jitter = jitter.then_some(window);
        Self { waiting, end: setting.start + setting.span, jitter, random }
    }
}

impl TrafficStream for CrowdTraffic {
    fn next(&mut self) -> Option<Arrival> {
        let Reverse(at) = self.waiting.pop()?;
        (at < self.end).then_some(Arrival { at, source: 0 })
    }

    fn on_denied(&mut self, arrival: Arrival, retry_after: Option<Span>) {
        let Some(wait) = retry_after else { return };
        let jitter = self.jitter.map_or(0, |most| self.random.below(most.as_micros()));
        self.waiting.push(Reverse(arrival.at + wait + Span::from_micros(jitter)));
    }
}
