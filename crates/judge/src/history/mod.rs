//! What was asked of a limiter, what it answered, and when.

mod lines;

use std::collections::BTreeMap;

pub use self::lines::{HistoryError, HistoryRecorder};

/// All calls, by key.
#[derive(Clone, Debug, Default)]
pub struct CallHistory {
    keys: BTreeMap<String, Vec<JudgedCall>>,
}

/// One call of a limiter. Times are in microseconds since the epoch, by the caller's clock: the
/// limiter decided somewhere in between.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCall {
    /// When it was sent.
    pub sent: i64,
    /// When its answer was there.
    pub received: i64,
    /// What it asked for.
    pub cost: u64,
    /// What the limiter answered.
    pub verdict: CallVerdict,
    /// What it said was left.
    pub remaining: Option<u64>,
    /// How long it said to wait.
    pub retry_after: Option<StatedWait>,
    /// Which of several instances was asked.
    pub instance: u32,
}

/// What a limiter answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallVerdict {
    /// It may pass.
    Admitted,
    /// It may not.
    Denied,
    /// There was no answer, so nobody knows whether it was charged, and when.
    Failed(Box<str>),
}

/// How long a limiter said to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedWait {
    /// In microseconds.
    pub micros: i64,
    /// By how much the limiter may have rounded it up.
    pub rounding: i64,
}

impl StatedWait {
    /// From a number of units, of `unit` microseconds each. A whole number can have been rounded up by
    /// a unit, a fraction by a millisecond.
    #[allow(clippy::float_arithmetic, reason = "limiters state waits as fractions of seconds")]
    pub fn of(number: f64, unit: i64) -> Option<Self> {
        if !(0.0..1e12).contains(&number) {
            return None;
        }
        let rounding = if number.fract() == 0.0 { unit } else { unit.min(1_000) };
        Some(Self { micros: (number * unit as f64).round() as i64, rounding })
    }
}

impl JudgedCall {
    /// Whether it was admitted.
    pub fn is_admitted(&self) -> bool {
        self.verdict == CallVerdict::Admitted
    }

    /// Whether it was denied.
    pub fn is_denied(&self) -> bool {
        self.verdict == CallVerdict::Denied
    }
}

impl CallHistory {
    /// Adds a call. The order does not matter.
    pub fn push(&mut self, key: &str, call: JudgedCall) {
        match self.keys.get_mut(key) {
            Some(calls) => calls.push(call),
            None => drop(self.keys.insert(key.to_owned(), vec![call])),
        }
    }

    /// Each key with its calls, in the order in which they were sent.
    pub(crate) fn sorted(&mut self) -> impl Iterator<Item = (&str, &[JudgedCall])> {
        self.keys.iter_mut().map(|(key, calls)| {
            calls.sort_by_key(|call| (call.sent, call.received));
            (key.as_str(), calls.as_slice())
        })
    }

    /// How many keys there are.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Every call, with its key.
    pub fn calls(&self) -> impl Iterator<Item = (&str, &JudgedCall)> {
        self.keys.iter().flat_map(|(key, calls)| calls.iter().map(move |call| (key.as_str(), call)))
    }
}
