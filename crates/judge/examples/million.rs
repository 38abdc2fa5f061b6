//! How long it takes to judge a million calls: `cargo run --release -p tidegate-judge --example million`.

#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    reason = "it measures the judge, in real time"
)]

use std::time::Instant;

use tidegate_core::algorithm::{
    Algorithm, FixedWindow, SlidingLog, SlidingWindow, SteppedWindow, TokenBucket,
};
use tidegate_core::{AlgorithmKind, Cost, Quota, QuotaError, SplitMix, Timestamp};
use tidegate_judge::{CallHistory, CallVerdict, Judge, JudgedCall, JudgedRule, StatedWait};

const CALLS: i64 = 1_000_000;

fn main() -> Result<(), QuotaError> {
    let quota: Quota = "1000/second".parse()?;
    for kind in AlgorithmKind::ALL {
        for keys in [1, 10_000] {
            let mut history = match kind {
                AlgorithmKind::FixedWindow => made::<FixedWindow>(&quota, keys)?,
                AlgorithmKind::SlidingLog => made::<SlidingLog>(&quota, keys)?,
                AlgorithmKind::TokenBucket => made::<TokenBucket>(&quota, keys)?,
                AlgorithmKind::SteppedWindow => made::<SteppedWindow>(&quota, keys)?,
                _ => made::<SlidingWindow>(&quota, keys)?,
            };
            let judge = Judge::new(JudgedRule::new(*kind, &quota)?);
            let start = Instant::now();
            let judgement = judge.judge(&mut history);
            let seconds = start.elapsed().as_secs_f64();
            println!(
                "{kind}, {keys} keys: {} admitted, {} denied, clean: {}, {} steps, {seconds:.2} s",
                judgement.admitted,
                judgement.denied,
                judgement.is_clean(),
                judgement.steps
            );
        }
    }
    Ok(())
}

/// Calls at twice the rate, of 1 to 3 ms each, so that some overlap.
fn made<A: Algorithm>(quota: &Quota, keys: u64) -> Result<CallHistory, QuotaError> {
    let (algorithm, mut random) = (A::from_quota(quota)?, SplitMix::new(1));
    let mut states = vec![A::State::default(); keys as usize];
    let mut history = CallHistory::default();
    for call in 0..CALLS {
        let at = 1_763_000_000_000_000 + call * 500 / keys as i64;
        let (sent, received) = (at - (random.bits() % 1_500) as i64, at + 1_000);
        let key = (random.bits() % keys) as usize;
        let Some(state) = states.get_mut(key) else { continue };
        let now = Timestamp::from_micros(at.unsigned_abs());
        let mut verdict = algorithm.probe(state, Cost::ONE, now);
        if verdict.allowed {
            verdict = algorithm.commit(state, Cost::ONE, now);
        }
        let answer = if verdict.allowed { CallVerdict::Admitted } else { CallVerdict::Denied };
        let wait = verdict.retry_after.map(|wait| wait.as_millis_ceil().cast_signed() * 1_000);
        let call = JudgedCall {
            sent,
            received,
            cost: 1,
            verdict: answer,
            remaining: Some(verdict.remaining),
            retry_after: wait.map(|micros| StatedWait { micros, rounding: 1_000 }),
            instance: 0,
        };
        history.push(&format!("key-{key}"), call);
    }
    Ok(history)
}
