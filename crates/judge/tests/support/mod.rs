//! Limiters in virtual time, and the histories that they make.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::collections::HashMap;

use tidegate_core::algorithm::Algorithm;
use tidegate_core::{Cost, Span, SplitMix, Timestamp};
use tidegate_judge::{
    CallHistory, CallVerdict, JudgedCall, JudgedRule, PlannedCall, StatedWait, WorkloadPlan,
};

/// A call as a limiter sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) key: u32,
    pub(crate) cost: u64,
    pub(crate) instance: u32,
    /// By the limiter's clock.
    pub(crate) now: i64,
}

/// What a limiter answers; the wait is in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) allowed: bool,
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after: Option<i64>,
}

impl Answered {
    pub(crate) fn plain(allowed: bool) -> Self {
        Self { allowed, remaining: None, retry_after: None }
    }
}

pub(crate) trait Limiter {
    fn ask(&mut self, asked: Asked) -> Answered;
}

impl<F: FnMut(Asked) -> Answered> Limiter for F {
    fn ask(&mut self, asked: Asked) -> Answered {
        self(asked)
    }
}

/// How calls travel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// The longest way in one direction, in microseconds.
    pub(crate) latency: u64,
    /// One answer in so many is lost; 0 if none is.
    pub(crate) lost: u64,
    /// How far the limiter's clock is ahead, in microseconds.
    pub(crate) ahead: i64,
}

impl Network {
    pub(crate) const FAST: Self = Self { latency: 2_000, lost: 0, ahead: 0 };
}

pub(crate) fn plan(seed: u64, span: Span) -> WorkloadPlan {
    WorkloadPlan {
        seed,
        keys: 3,
        instances: 2,
        most_cost: 3,
        most_burst: 200,
        span,
        start: 1_763_000_000_123_456,
    }
}

/// The history of a workload, and of one more key whose caller waits as long as it is told to.
pub(crate) fn history(
    plan: &WorkloadPlan,
    rule: &JudgedRule,
    network: Network,
    limiter: &mut dyn Limiter,
) -> CallHistory {
    let mut random = SplitMix::new(plan.seed ^ 0x5eed);
    let mut below = |end: u64| ((u128::from(random.bits()) * u128::from(end)) >> 64) as u64;
    let mut history = CallHistory::default();
    let way = |below: &mut dyn FnMut(u64) -> u64| below(network.latency + 1) as i64;
    let mut travelling: Vec<(i64, PlannedCall)> = plan
        .calls(rule)
        .into_iter()
        .map(|call| (plan.start + call.at + way(&mut below), call))
        .collect();
    travelling.sort_by_key(|(at, _)| *at);
    for (at, call) in travelling {
        let sent = plan.start + call.at;
        let asked = Asked {
            key: call.key,
            cost: call.cost,
            instance: call.instance,
            now: at + network.ahead,
        };
        let answered = limiter.ask(asked);
        let received = at + way(&mut below);
        let is_lost = network.lost > 0 && below(network.lost) == 0;
        let call = judged(asked, answered, sent, received, is_lost);
        history.push(&format!("key-{}", asked.key), call);
    }
    let (mut now, end) = (plan.start, plan.start + plan.span.as_micros() as i64);
    while now < end {
        let at = now + way(&mut below);
        let cost = 1 + below(plan.most_cost);
        let asked = Asked { key: u32::MAX, cost, instance: 0, now: at + network.ahead };
        let answered = limiter.ask(asked);
        let received = at + way(&mut below);
        history.push("patient", judged(asked, answered, now, received, false));
        now = received + 1;
        if let Some(wait) = answered.retry_after {
            // The same again, after the wait.
            now = received + wait;
            let at = now + way(&mut below);
            let again = Asked { now: at + network.ahead, ..asked };
            let answered = limiter.ask(again);
            let received = at + way(&mut below);
            history.push("patient", judged(again, answered, now, received, false));
            now = received + 1;
        }
    }
    history
}

fn judged(asked: Asked, answered: Answered, sent: i64, received: i64, lost: bool) -> JudgedCall {
    let verdict = match answered.allowed {
        _ if lost => CallVerdict::Failed("lost".into()),
        true => CallVerdict::Admitted,
        false => CallVerdict::Denied,
    };
    let wait = answered.retry_after.map(|micros| StatedWait { micros, rounding: 1_000 });
    JudgedCall {
        sent,
        received,
        cost: asked.cost,
        verdict,
        remaining: answered.remaining.filter(|_| !lost),
        retry_after: wait.filter(|_| !lost),
        instance: asked.instance,
    }
}

/// One of our algorithms, as a limiter.
pub(crate) struct Ours<A: Algorithm> {
    algorithm: A,
    states: HashMap<u32, A::State>,
}

impl<A: Algorithm> Ours<A> {
    pub(crate) fn new(quota: &str) -> Self {
        let algorithm = A::from_quota(&quota.parse().unwrap()).unwrap();
        Self { algorithm, states: HashMap::new() }
    }
}

impl<A: Algorithm> Limiter for Ours<A> {
    fn ask(&mut self, asked: Asked) -> Answered {
        let (cost, now) =
            (Cost::new(asked.cost).unwrap(), Timestamp::from_micros(asked.now as u64));
        let state = self.states.entry(asked.key).or_default();
        let mut verdict = self.algorithm.probe(state, cost, now);
        if verdict.allowed {
            verdict = self.algorithm.commit(state, cost, now);
        } else {
            self.algorithm.deny(state, cost, now);
        }
        Answered {
            allowed: verdict.allowed,
            remaining: Some(verdict.remaining),
            retry_after: verdict.retry_after.map(|wait| (wait.as_millis_ceil() * 1_000) as i64),
        }
    }
}
