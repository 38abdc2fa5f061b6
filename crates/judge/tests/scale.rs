//! Judging takes near-linear time: steps are counted, not seconds.

#![allow(clippy::unwrap_used, reason = "tests panic")]

mod support;

use support::{Network, Ours, history, plan};
use tidegate_core::algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket};
use tidegate_core::{AlgorithmKind, Span};
use tidegate_judge::{CallHistory, Judge, JudgedRule, WorkloadPlan};

/// The steps per call of a history of so many windows, of one busy key.
fn steps_per_call(kind: AlgorithmKind, windows: u64) -> (u64, u64) {
    let rule = JudgedRule::new(kind, &"50/second".parse().unwrap()).unwrap();
    let plan = WorkloadPlan { keys: 1, ..plan(7, Span::from_secs(windows)) };
    let mut made = match kind {
        AlgorithmKind::SlidingLog => made(&plan, &rule, Ours::<SlidingLog>::new("50/second")),
        AlgorithmKind::TokenBucket => made(&plan, &rule, Ours::<TokenBucket>::new("50/second")),
        AlgorithmKind::FixedWindow => made(&plan, &rule, Ours::<FixedWindow>::new("50/second")),
        _ => made(&plan, &rule, Ours::<SlidingWindow>::new("50/second")),
    };
    let judgement = Judge::new(rule).judge(&mut made);
    let calls = judgement.admitted + judgement.denied;
    (calls, judgement.steps / calls)
}

fn made(plan: &WorkloadPlan, rule: &JudgedRule, mut ours: impl support::Limiter) -> CallHistory {
    history(plan, rule, Network::FAST, &mut ours)
}

#[test]
fn ten_times_as_many_calls_take_little_more_than_ten_times_as_many_steps() {
    for kind in [
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindow,
        AlgorithmKind::SlidingLog,
        AlgorithmKind::TokenBucket,
    ] {
        let (few, little) = steps_per_call(kind, 30);
        let (many, more) = steps_per_call(kind, 600);
        assert!(many > 10 * few, "{kind}: {few} and {many} calls");
        // A search takes a few steps more, since it is of the order of log n.
        assert!(more <= little * 2 && more < 400, "{kind}: {little} and {more} steps per call");
    }
}
