//! Throttles log lines that clients can cause, so that they cannot flood the log.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{LogLevel, emit};

/// Logs at most five lines in ten seconds. The next line after that says how many were left out.
#[derive(Debug)]
pub struct LogThrottle(Mutex<ThrottleWindow>);

#[derive(Debug, Default)]
struct ThrottleWindow {
    since: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl LogThrottle {
    /// A throttle that has logged nothing yet.
    pub const fn new() -> Self {
        Self(Mutex::new(ThrottleWindow { since: None, written: 0, left_out: 0 }))
    }

    /// Logs an event, or counts it as left out.
    pub fn emit(&self, level: LogLevel, event: &str, message: &str, fields: &[(&str, &str)]) {
        let Some(left_out) = self.0.lock().admit_line(Instant::now()) else { return };
        match left_out {
            0 => emit(level, event, message, fields),
            1.. => {
                let number = left_out.to_string();
                let all: Vec<_> = fields.iter().copied().chain([("left_out", &*number)]).collect();
                let message = format!("{message} ({left_out} similar lines left out before)");
                emit(level, event, &message, &all);
            }
        }
    }
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::new()
    }
}

impl ThrottleWindow {
    /// How many lines were left out before, if this line can be logged.
    fn admit_line(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            (self.since, self.written) = (Some(now), 0);
        }
        if self.written >= MOST {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.written = self.written.saturating_add(1);
        Some(std::mem::take(&mut self.left_out))
    }
}

const WINDOW: Duration = Duration::from_secs(10);
const MOST: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_events_is_a_few_lines() {
        let (mut window, begun) = (ThrottleWindow::default(), Instant::now());
        let logged = (0..1_000).filter_map(|_| window.admit_line(begun)).count();
        assert_eq!(logged, 5);
        assert_eq!(window.admit_line(begun + WINDOW), Some(995));
        assert_eq!(window.admit_line(begun + WINDOW), Some(0));
    }
}
