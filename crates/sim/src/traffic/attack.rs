//! Traffic of attackers that know when a window ends.

use tidegate::{Span, Timestamp};

use super::{Arrival, TrafficSettings, TrafficStream};

/// Requests that were planned in advance: bursts, and then perhaps a steady stream.
pub(super) struct AttackTraffic {
    bursts: std::vec::IntoIter<AttackBurst>,
    now: Option<AttackBurst>,
    ticker: Option<AttackTicker>,
}

/// Requests that come at the same time.
struct AttackBurst {
    at: Timestamp,
    left: u64,
}

/// A steady stream of requests.
struct AttackTicker {
    next: Timestamp,
    every: Span,
    end: Timestamp,
}

impl AttackTraffic {
    /// A full quota a second before the first edge, another a second after it; for a window shorter
    /// than a minute, a 60th of it before and after.
    pub(super) fn burst(settings: &TrafficSettings) -> Self {
        let window = settings.quota.window();
        let aside = Span::from_micros(window.as_micros() / 60).min(Span::from_secs(1));
        let edge = settings.start + window;
        let full = |at| AttackBurst { at, left: settings.quota.limit().min(MOST) };
        Self::new(vec![full(edge.before(aside)), full(edge + aside)], None, settings)
    }

    /// A full quota at the last moment of a window, and from then on ten attempts for each request
    /// that the limit allows: every unit that an algorithm frees is taken immediately.
    pub(super) fn greedy(settings: &TrafficSettings) -> Self {
        let window = settings.quota.window();
        let edge = settings.start + window;
        let limit = settings.quota.limit().clamp(1, MOST);
        let burst = AttackBurst { at: edge.before(Span::from_micros(1)), left: limit };
        let every = Span::from_micros((window.as_micros() / limit / 10).max(1));
        let ticker = AttackTicker { next: edge, every, end: settings.start + settings.span };
        Self::new(vec![burst], Some(ticker), settings)
    }

    fn new(
        bursts: Vec<AttackBurst>,
        ticker: Option<AttackTicker>,
        settings: &TrafficSettings,
    ) -> Self {
        let end = settings.start + settings.span;
        let bursts: Vec<_> = bursts.into_iter().filter(|burst| burst.at < end).collect();
        Self { bursts: bursts.into_iter(), now: None, ticker }
    }
}

impl TrafficStream for AttackTraffic {
    fn next(&mut self) -> Option<Arrival> {
        loop {
            if let Some(burst) = self.now.as_mut().filter(|burst| burst.left > 0) {
                burst.left -= 1;
                return Some(Arrival { at: burst.at, source: 0 });
            }
            match self.bursts.next() {
                Some(burst) => self.now = Some(burst),
                None => break,
            }
        }
        let ticker = self.ticker.as_mut().filter(|ticker| ticker.next < ticker.end)?;
        let at = ticker.next;
        ticker.next = at + ticker.every;
        Some(Arrival { at, source: 0 })
    }
}

/// The largest burst, so that a limit of billions does not take forever.
const MOST: u64 = 1_000_000;
