//! Fixed traces with their answers, for every store and every language.
//!
//! `vectors/ALGORITHM.jsonl` holds one trace per line. The answers are the models'; a test
//! regenerates them and compares, and `cargo run -p xtask -- vectors` rewrites them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tidegate_core::{AlgorithmKind, Limit, Quota, Span, SplitMix, Timestamp, Verdict};

use crate::Subject;
use crate::model::ModelStore;
use crate::trace::{Event, Play};

/// One trace: a limit on one key, and the steps on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vector {
    /// The algorithm's name.
    pub algorithm: String,
    /// Units per window.
    pub limit: u64,
    /// The window, in microseconds.
    pub window_us: u64,
    /// The burst, for a token bucket that has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// How many steps the window has, for a stepped window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_steps: Option<u64>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The time, in microseconds since the epoch.
    pub at_us: u64,
    /// The action.
    #[serde(flatten)]
    pub operation: Operation,
}

/// An action, with its answer if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Operation {
    /// Requests units.
    Check {
        /// How many; zero is a peek.
        cost: u64,
        /// The answer.
        #[serde(flatten)]
        answer: Answer,
    },
    /// Refunds units.
    Refund {
        /// How many.
        amount: u64,
    },
    /// Forgets the key.
    Reset,
}

/// A verdict as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it passed.
    pub allowed: bool,
    /// What is left.
    pub remaining: u64,
    /// When to try again; null if it passed or never will.
    pub retry_after_us: Option<u64>,
    /// When the quota is full again.
    pub reset_after_us: u64,
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        Self {
            allowed: verdict.allowed,
            remaining: verdict.remaining,
            retry_after_us: verdict.retry_after.map(Span::as_micros),
            reset_after_us: verdict.reset_after.as_micros(),
        }
    }
}

/// The store's answers match every vector.
pub fn match_the_store(subject: &impl Subject) {
    for kind in AlgorithmKind::ALL {
        let text = std::fs::read_to_string(path(*kind)).expect("vectors/");
        assert!(text.lines().count() >= TRACES, "{kind}");
        for (number, line) in text.lines().enumerate() {
            let vector: Vector = serde_json::from_str(line).expect("a vector");
            let replayed = replay(subject, &vector);
            assert_eq!(replayed, vector.steps, "{kind} line {}", number + 1);
        }
    }
}

/// The file of an algorithm's vectors: located relative to the running crate, wherever this one was
/// compiled.
pub fn path(kind: AlgorithmKind) -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&here).ancestors().find(|above| above.join("vectors").is_dir());
    root.unwrap_or(Path::new("")).join("vectors").join(format!("{kind}.jsonl"))
}

/// What the file of an algorithm should contain.
pub fn generate(kind: AlgorithmKind) -> String {
    let name = kind.name().bytes();
    let seed = name.fold(0_u64, |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
    let mut random = Random(SplitMix::new(seed));
    let lines = (0..TRACES).map(|_| {
        let vector = random_vector(kind, &mut random);
        serde_json::to_string(&vector).expect("a vector is JSON") + "\n"
    });
    lines.collect()
}

fn replay(subject: &impl Subject, vector: &Vector) -> Vec<Step> {
    let first = vector.steps.first().map_or(0, |step| step.at_us);
    let mut play = Play::new(subject, limit_of(vector), Timestamp::from_micros(first));
    let replayed = vector.steps.iter().map(|step| {
        play.set_now(Timestamp::from_micros(step.at_us));
        let operation = match step.operation {
            Operation::Check { cost, .. } => {
                Operation::Check { cost, answer: play.check(cost).into() }
            }
            Operation::Refund { amount } => {
                play.refund(amount);
                Operation::Refund { amount }
            }
            Operation::Reset => {
                play.play(Event::Reset);
                Operation::Reset
            }
        };
        Step { at_us: step.at_us, operation }
    });
    replayed.collect()
}

fn limit_of(vector: &Vector) -> Limit {
    let mut quota = Quota::new(vector.limit, Span::from_micros(vector.window_us)).expect("quota");
    if let Some(burst) = vector.burst {
        quota = quota.with_burst(burst).expect("burst");
    }
    let limit = Limit::new(vector.algorithm.parse().expect("algorithm"), &quota).expect("limit");
    vector.window_steps.map_or(limit, |steps| limit.with_steps(steps).expect("steps"))
}

const TRACES: usize = 25;
const STEPS: usize = 25;

fn random_vector(kind: AlgorithmKind, random: &mut Random) -> Vector {
    let window_us =
        *random.pick(&[1_000, 333_333, 1_000_000, 7_000_000, 60_000_000, 86_400_000_000]);
    let limit = *random.pick(&[1, 2, 3, 5, 7, 10, 100, 1_000]);
    let burst = (kind.takes_burst() && random.below(2) == 0).then(|| 1 + random.below(2 * limit));
    let has_steps = kind == AlgorithmKind::SteppedWindow;
    let window_steps = has_steps.then(|| *random.pick(&[2, 3, 7, 10, 10, 60]));
    let capacity = burst.unwrap_or(limit);
    let mut at_us = *random.pick(&[0, 59_000_000, 1_763_000_000_000_000, 1_763_000_000_123_457]);
    let steps = (0..STEPS).map(|_| {
        at_us += match random.below(6) {
            0 => 0,
            1 => 1,
            2 => random.below(window_us / 10),
            3 => random.below(window_us),
            4 => window_us - at_us % window_us,
            _ => random.below(3 * window_us),
        };
        Step { at_us, operation: random_operation(capacity, random) }
    });
    let steps = steps.collect();
    let algorithm = kind.name().to_owned();
    let mut vector = Vector { algorithm, limit, window_us, burst, window_steps, steps };
    vector.steps = replay(&ModelStore::default(), &vector);
    vector
}

fn random_operation(capacity: u64, random: &mut Random) -> Operation {
    // Filled in by the replay.
    let answer = Answer { allowed: false, remaining: 0, retry_after_us: None, reset_after_us: 0 };
    match random.below(20) {
        0 => Operation::Reset,
        1 | 2 => Operation::Refund { amount: random.below(capacity + 2) },
        3..=5 => Operation::Check { cost: 0, answer },
        6..=9 => Operation::Check { cost: 1, answer },
        _ => Operation::Check { cost: random.below(capacity + 2), answer },
    }
}

/// The same vectors on every machine, whatever a library does.
struct Random(SplitMix);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.bits().checked_rem(bound).unwrap_or(0)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_fresh() {
        for kind in AlgorithmKind::ALL {
            let file = std::fs::read_to_string(path(*kind)).unwrap_or_default();
            assert!(
                file == generate(*kind),
                "vectors/{kind}.jsonl is out of date: cargo run -p xtask -- vectors"
            );
        }
    }
}
