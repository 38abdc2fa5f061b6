//! Attackers that know where a window ends.

use tidegate::{Span, Timestamp};

use super::{Arrival, TrafficSettings, TrafficStream};

/// Requests that were planned in advance: bursts, and then perhaps a steady stream.
pub(super) struct AttackTraffic {
    bursts: std::vec::IntoIter<AttackBurst>,
    now: Option<AttackBurst>,
    ticker: Option<AttackTicker>,
}

struct AttackBurst {
    at: Timestamp,
    left: u64,
}

struct AttackTicker {
    next: Timestamp,
    every: Span,
    end: Timestamp,
}

impl AttackTraffic {
    /// A full quota a second before the first edge, another a second after it; for a window shorter
    /// than a minute, a 60th of it before and after.
    pub(super) fn burst(setting: &TrafficSettings) -> Self {
        let window = setting.quota.window();
        let aside = Span::from_micros(window.as_micros() / 60).min(Span::from_secs(1));
        let edge = setting.start + window;
        let full = |at| AttackBurst { at, left: setting.quota.limit().min(MOST) };
        Self::new(vec![full(edge.before(aside)), full(edge + aside)], None, setting)
    }

    /// A full quota at the last moment of a window, and from then on ten attempts for each request
    /// that the limit allows: whatever an algorithm gives is taken at once.
    pub(super) fn greedy(setting: &TrafficSettings) -> Self {
        let window = setting.quota.window();
        let edge = setting.start + window;
        let limit = setting.quota.limit().clamp(1, MOST);
        let burst = AttackBurst { at: edge.before(Span::from_micros(1)), left: limit };
        let every = Span::from_micros((window.as_micros() / limit / 10).max(1));
        let drum = AttackTicker { next: edge, every, end: setting.start + setting.span };
        Self::new(vec![burst], Some(drum), setting)
    }

    fn new(
        bursts: Vec<AttackBurst>,
        drum: Option<AttackTicker>,
        setting: &TrafficSettings,
    ) -> Self {
        let end = setting.start + setting.span;
        let bursts: Vec<_> = bursts.into_iter().filter(|burst| burst.at < end).collect();
        Self { bursts: bursts.into_iter(), now: None, ticker: drum }
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
        let drum = self.ticker.as_mut().filter(|drum| drum.next < drum.end)?;
        let at = drum.next;
        drum.next = at + drum.every;
        Some(Arrival { at, source: 0 })
    }
}

/// Of a limit of billions, a burst that still ends.
const MOST: u64 = 1_000_000;
