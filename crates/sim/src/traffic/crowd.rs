//! Traffic of many clients that retry after a denial.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate::{Span, Timestamp};

use super::{Arrival, TrafficSettings, TrafficStream};
use crate::SeededRandom;

/// Clients that arrive within a second, share one limit, and retry exactly after the delay of a
/// denial. With jitter they add a random delay, so that they do not all retry together.
pub(super) struct CrowdTraffic {
    waiting: BinaryHeap<Reverse<Timestamp>>,
    end: Timestamp,
    jitter: Option<Span>,
    random: SeededRandom,
}

impl CrowdTraffic {
    pub(super) fn new(settings: &TrafficSettings, jitter: bool) -> Self {
        let mut random = SeededRandom::new(settings.seed);
        let window = settings.quota.window();
        let first = Span::from_micros(window.as_micros() / 60).min(Span::from_secs(1));
        let arrival = |_| {
            let offset = Span::from_micros(random.below(first.as_micros().max(1)));
            Reverse(settings.start + offset)
        };
        let waiting = (0..settings.sources).map(arrival).collect();
        let jitter = jitter.then_some(window);
        Self { waiting, end: settings.start + settings.span, jitter, random }
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
