//! Naive models of the algorithms: they keep all requests in a list, and compute every answer from it.
//! Code without cleverness has no clever mistakes.

mod fixed_window;
mod sliding_log;
mod sliding_window;
mod stepped_window;
mod store;
mod token_bucket;

pub use store::ModelStore;

use tidegate_core::{AlgorithmKind, Cost, Limit, Timestamp, Verdict};

/// One key under one limit.
pub trait Model: Send {
    /// What the verdict would be.
    fn probe(&self, cost: Cost, now: Timestamp) -> Verdict;
    /// Records an admitted request.
    fn commit(&mut self, cost: Cost, now: Timestamp);
    /// Records a denied request.
    fn deny(&mut self, cost: Cost, now: Timestamp);
    /// Records a refund.
    fn refund(&mut self, amount: Cost, now: Timestamp);
    /// Switches to another limit of the same algorithm and window. What was counted stays.
    fn adopt(&mut self, limit: &Limit);
    /// The time from which on it decides like a new key.
    fn forget_at(&self) -> Timestamp;
    /// A copy for trial decisions.
    fn copy(&self) -> Box<dyn Model>;
}

/// The model of a limit, for a new key.
pub fn model(limit: &Limit) -> Box<dyn Model> {
    let quota = limit.quota();
    match limit.kind() {
        AlgorithmKind::FixedWindow => Box::new(fixed_window::FixedWindow::new(limit)),
        AlgorithmKind::SlidingWindow => Box::new(sliding_window::SlidingWindow::new(&quota)),
        AlgorithmKind::SlidingLog => Box::new(sliding_log::SlidingLog::new(&quota)),
        AlgorithmKind::TokenBucket => Box::new(token_bucket::TokenBucket::new(&quota)),
        AlgorithmKind::SteppedWindow => Box::new(stepped_window::SteppedWindow::new(limit)),
        other => panic!("{other} has no model yet: add a file in model/, and an arm here"),
    }
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug)]
struct Hit {
    at: i128,
    units: i128,
}

fn units(hits: &[Hit], keep: impl Fn(&Hit) -> bool) -> i128 {
    hits.iter().filter(|hit| keep(hit)).map(|hit| hit.units).sum()
}

/// Takes the newest units away.
fn take_newest(hits: &mut Vec<Hit>, mut amount: i128) {
    while let Some(newest) = hits.last_mut() {
        if newest.units > amount {
            newest.units -= amount;
            return;
        }
        amount -= newest.units;
        hits.pop();
    }
}

/// Moves requests to now that are in the future because the clock went back.
fn pull_back(hits: &mut [Hit], now: i128) {
    hits.iter_mut().for_each(|hit| hit.at = hit.at.min(now));
}

fn micros(at: Timestamp) -> i128 {
    i128::from(at.as_micros())
}

fn cost_of(cost: Cost) -> i128 {
    i128::from(cost.get())
}

/// The smallest number from `low` to `high` at which `holds` is true, given that it stays true.
fn first(mut low: i128, mut high: i128, holds: impl Fn(i128) -> bool) -> i128 {
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// A verdict from plain numbers. `admits_after` is the algorithm's rule after waiting that long, which
/// is at most `longest`.
fn verdict(
    capacity: i128,
    remaining: i128,
    cost: i128,
    reset: i128,
    longest: i128,
    admits_after: impl Fn(i128) -> bool,
) -> Verdict {
    let span = |micros: i128| tidegate_core::Span::from_micros(u64::try_from(micros).unwrap());
    // A peek fits everywhere, even if a lowered limit or a jump of the clock left too much counted.
    let allowed = capacity > 0 && (cost == 0 || admits_after(0));
    let possible = capacity > 0 && cost <= capacity;
    Verdict {
        allowed,
        limit: u64::try_from(capacity).unwrap(),
        remaining: u64::try_from(remaining.max(0)).unwrap(),
        retry_after: (!allowed && possible).then(|| span(first(1, longest, admits_after))),
        reset_after: span(reset),
    }
}
