//! Lines that a client can bring about: never more than a few at a time.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Level, say};

/// Logs at most five lines in ten seconds. The first line after that says how many were left out.
#[derive(Debug)]
pub struct RareLines(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl RareLines {
    /// Nothing has been said yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Window { since: None, said: 0, left_out: 0 }))
    }

    /// Logs an event, or counts it.
    pub fn say(&self, level: Level, event: &str, message: &str, fields: &[(&str, &str)]) {
        let Some(left_out) = self.0.lock().turn(Instant::now()) else { return };
        match left_out {
            0 => say(level, event, message, fields),
            1.. => {
                let number = left_out.to_string();
                let all: Vec<_> = fields.iter().copied().chain([("left_out", &*number)]).collect();
                say(level, event, &format!("{message} ({left_out} lines like this before)"), &all);
            }
        }
    }
}

impl Default for RareLines {
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// How many lines were left out, if this one may be said.
    fn turn(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= WINDOW) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said >= MOST {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.said = self.said.saturating_add(1);
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
        let (mut window, begun) = (Window::default(), Instant::now());
        let said = (0..1_000).filter_map(|_| window.turn(begun)).count();
        assert_eq!(said, 5);
        assert_eq!(window.turn(begun + WINDOW), Some(995));
        assert_eq!(window.turn(begun + WINDOW), Some(0));
    }
}
