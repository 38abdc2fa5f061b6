//! The judge finds nothing where there is nothing to be found.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::collections::HashMap;

use proptest::prelude::*;
use support::{Network, Ours, history, plan};
use tidegate_core::algorithm::{
    FixedWindow, SlidingLog, SlidingWindow, SteppedWindow, TokenBucket,
};
use tidegate_core::{AlgorithmKind, Span};
use tidegate_judge::{CallHistory, Judge, JudgedRule, Judgement, WorkloadPlan};

#[derive(Clone, Debug)]
struct Scene {
    kind: AlgorithmKind,
    quota: String,
    seed: u64,
    most_cost: u64,
    latency: u64,
    lost: u64,
    ahead: i64,
}

fn scenes() -> impl Strategy<Value = Scene> {
    let kind = prop::sample::select(AlgorithmKind::ALL);
    let window = prop::sample::select(vec![37_u64, 100, 1_000, 7_919]);
    let network = (prop::sample::select(vec![0_u64, 50, 3_000, 80_000]), 0_u64..20, -500_i64..500);
    (kind, 1_u64..40, window, 1_u64..60, any::<u64>(), 1_u64..6, network).prop_map(
        |(kind, limit, window, burst, seed, most_cost, (latency, lost, ahead))| {
            let burst = match kind.takes_burst() {
                true => format!(" burst {burst}"),
                false => String::new(),
            };
            let lost = if lost < 12 { 0 } else { lost };
            let quota = format!("{limit}/{window}ms{burst}");
            Scene { kind, quota, seed, most_cost, latency, lost, ahead }
        },
    )
}

/// What the limiter of a scene answers to the workload of a rule.
fn made(scene: &Scene, rule: JudgedRule) -> CallHistory {
    let span = Span::from_micros(rule.quota().window().as_micros() * 12);
    let plan = WorkloadPlan { most_cost: scene.most_cost, ..plan(scene.seed, span) };
    let network = Network { latency: scene.latency, lost: scene.lost, ahead: scene.ahead };
    match scene.kind {
        AlgorithmKind::FixedWindow => {
            history(&plan, &rule, network, &mut Ours::<FixedWindow>::new(&scene.quota))
        }
        AlgorithmKind::SlidingWindow => {
            history(&plan, &rule, network, &mut Ours::<SlidingWindow>::new(&scene.quota))
        }
        AlgorithmKind::SlidingLog => {
            history(&plan, &rule, network, &mut Ours::<SlidingLog>::new(&scene.quota))
        }
        AlgorithmKind::TokenBucket => {
            history(&plan, &rule, network, &mut Ours::<TokenBucket>::new(&scene.quota))
        }
        AlgorithmKind::SteppedWindow => {
            history(&plan, &rule, network, &mut Ours::<SteppedWindow>::new(&scene.quota))
        }
        kind => panic!("no limiter for {kind}"),
    }
}

const CLOCK_ERROR: Span = Span::from_micros(500);

fn judged(scene: &Scene, rule: JudgedRule) -> Judgement {
    let judge = Judge { clock_error: CLOCK_ERROR, ..Judge::new(rule) };
    judge.judge(&mut made(scene, rule))
}

/// The calls of a history that were sent when those before some time were over.
fn later_part(all: &CallHistory, share: i64) -> CallHistory {
    let mut cuts = HashMap::<&str, i64>::new();
    let times = || all.calls().flat_map(|(_, call)| [call.sent, call.received]);
    let (first, last) = (times().min().unwrap(), times().max().unwrap());
    for (key, _) in all.calls() {
        cuts.insert(key, first + (last - first) / share);
    }
    let error = 2 * CLOCK_ERROR.as_micros() as i64;
    let mut is_moving = true;
    while is_moving {
        is_moving = false;
        for (key, call) in all.calls() {
            let cut = cuts.get_mut(key).unwrap();
            if call.sent <= *cut + error && call.received > *cut {
                (*cut, is_moving) = (call.received, true);
            }
        }
    }
    let mut later = CallHistory::default();
    for (key, call) in all.calls().filter(|(key, call)| call.sent > cuts[key] + error) {
        later.push(key, call.clone());
    }
    later
}

#[track_caller]
fn clean(scene: &Scene, judgement: &Judgement) {
    assert!(judgement.is_clean(), "{scene:?}: {:#?}", judgement.counterexamples);
    assert!(judgement.admitted > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn our_algorithms_keep_their_rules(scene in scenes()) {
        let rule = JudgedRule::new(scene.kind, &scene.quota.parse().unwrap()).unwrap();
        clean(&scene, &judged(&scene, rule));
    }

    /// A rule that allows more does not accuse a limiter that keeps a stricter one.
    #[test]
    fn looser_rules_accuse_nobody(scene in scenes()) {
        let quota = scene.quota.parse().unwrap();
        let rule = match scene.kind {
            AlgorithmKind::FixedWindow => {
                JudgedRule::new(scene.kind, &quota).unwrap().with_loose_windows().unwrap()
            }
            AlgorithmKind::SlidingLog | AlgorithmKind::SteppedWindow => {
                JudgedRule::at_most(&quota).unwrap()
            }
            _ => return Ok(()),
        };
        clean(&scene, &judged(&scene, rule));
    }

    /// Keys that were used before: the judge knows nothing about that, and must be told.
    #[test]
    fn keys_that_were_used_before_accuse_nobody(scene in scenes(), share in 2_i64..6) {
        let rule = JudgedRule::new(scene.kind, &scene.quota.parse().unwrap()).unwrap();
        let scene = Scene { lost: 0, ..scene };
        let mut later = later_part(&made(&scene, rule), share);
        let judge = Judge { clock_error: CLOCK_ERROR, warm: true, ..Judge::new(rule) };
        let judgement = judge.judge(&mut later);
        prop_assert!(judgement.is_clean(), "{scene:?}: {:#?}", judgement.counterexamples);
    }
}
