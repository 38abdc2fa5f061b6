//! The store decides like the model, to the last unit and microsecond.

use std::cmp::Reverse;

use proptest::prelude::*;
use tidegate_core::{Charge, Cost, Rule, Span, Timestamp, Verdict};

use super::CASES;
use crate::Subject;
use crate::model::ModelStore;
use crate::trace::{Event, Mix, Play, Trace, for_all, fresh, large_traces, limits, rule, traces};

/// Every verdict of every trace is the model's.
pub fn agrees_with_the_model(subject: &impl Subject) {
    for_all(subject.share_of(4 * CASES), traces(Mix::STEADY), |trace| {
        compare(subject, &trace, false);
    });
}

/// Also when time jumps.
pub fn agrees_with_the_model_when_the_clock_goes_back(subject: &impl Subject) {
    for_all(subject.share_of(4 * CASES), traces(Mix::JUMPING), |trace| {
        compare(subject, &trace, false);
    });
}

/// Also when limits change: what was counted stays, and the new limit applies at once.
pub fn agrees_with_the_model_when_limits_change(subject: &impl Subject) {
    for_all(subject.share_of(2 * CASES), traces(Mix::CHANGING), |trace| {
        compare(subject, &trace, false);
    });
}

/// Also when counts are large.
pub fn large_counts_agree_with_the_model(subject: &impl Subject) {
    for_all(subject.share_of(4 * CASES), large_traces(), |trace| compare(subject, &trace, false));
}

/// Also when a key's windows are staggered.
pub fn staggered_windows_keep_the_law(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::STEADY), |trace| compare(subject, &trace, true));
}

/// Identical requests that arrive together are decided as if they had come one by one, in any order.
pub fn crowds_agree_with_the_model(subject: &impl Subject) {
    let traces = prop_oneof![traces(Mix::JUMPING), traces(Mix::CHANGING), large_traces()];
    let sizes = prop::collection::vec(prop_oneof![1..4_usize, 1..60_usize], 60);
    for_all(subject.share_of(2 * CASES), (traces, sizes), |(trace, sizes)| {
        let model = ModelStore::default();
        let mut real = Play::new(subject, trace.limit, trace.start);
        let mut ideal = real.beside(&model);
        for (event, size) in trace.events.into_iter().zip(sizes) {
            if let Event::Check(cost) = event {
                let verdicts = in_turn(real.crowd(cost.get(), size));
                let expected = in_turn(ideal.crowd(cost.get(), size));
                assert_eq!(verdicts, expected, "{size} times {cost:?}");
            } else {
                real.play(event);
                ideal.play(event);
            }
        }
    });
}

/// Sorts verdicts in the order of decision: more left came first, and denials came last.
fn in_turn(mut verdicts: Vec<Verdict>) -> Vec<Verdict> {
    verdicts.sort_by_key(|one| (!one.allowed, Reverse(one.remaining), one.reset_after));
    verdicts
}

fn compare(subject: &impl Subject, trace: &Trace, staggered: bool) {
    let model = ModelStore::default();
    let mut real = Play::new(subject, trace.limit, trace.start);
    real.stagger(staggered);
    let mut ideal = real.beside(&model);
    for (step, event) in trace.events.iter().enumerate() {
        assert_eq!(real.play(*event), ideal.play(*event), "step {step}: {event:?}");
    }
}

/// Many keys of several limits, staggered or not, while time passes and some of them die: no key is
/// forgotten early because of another.
pub fn many_keys_agree_with_the_model(subject: &impl Subject) {
    let rules = prop::collection::vec((limits(), any::<bool>()), 1..4);
    let request = (0..200_usize, 0..4_usize, prop_oneof![3 => Just(0), 1 => 0..=500_000_u64]);
    let requests = prop::collection::vec(request, 1..600);
    for_all(subject.share_of(CASES / 20).max(8), (rules, requests), |(limits, requests)| {
        let model = ModelStore::default();
        let with = |(limit, staggered)| Rule { staggered, ..rule(limit) };
        let rules: Vec<Rule> = limits.into_iter().map(with).collect();
        let keys: Vec<_> = (0..200).map(|_| fresh()).collect();
        let mut now = Timestamp::from_secs(1_000_000);
        let charge = |(key, rule, _): &(usize, usize, u64)| {
            Charge::new(keys[*key], Cost::ONE, &rules[*rule % rules.len()])
        };
        // Requests that arrive at the same time are decided together, if the store can.
        for together in requests.chunk_by(|_, (_, _, wait)| *wait == 0) {
            now = now + Span::from_micros(together.iter().map(|(_, _, wait)| wait).sum());
            subject.set_now(now);
            model.set_now(now);
            let charges: Vec<_> = together.iter().map(charge).collect();
            assert_eq!(subject.each(&charges), model.each(&charges));
        }
    });
}

/// Requests that are charged to several limits: all limits are charged, or none.
pub fn several_limits_agree_with_the_model(subject: &impl Subject) {
    let limit = (limits(), prop::bool::weighted(0.8));
    let request = (0..4_u64, prop_oneof![Just(0), 0..=1_000_000_u64], 0..3_usize);
    let requests = prop::collection::vec(request, 1..40);
    for_all(
        subject.share_of(CASES),
        (prop::collection::vec(limit, 1..6), requests),
        |(limits, requests)| {
            let model = ModelStore::default();
            let rules: Vec<Rule> = limits
                .into_iter()
                .map(|(limit, enforced)| Rule { enforced, ..rule(limit) })
                .collect();
            let keys = [fresh(), fresh(), fresh()];
            let mut now = Timestamp::from_secs(1_000_000);
            for (cost, wait, key) in requests {
                now = now + Span::from_micros(wait);
                subject.set_now(now);
                model.set_now(now);
                let cost = Cost::new(cost).unwrap();
                let charges: Vec<_> =
                    rules.iter().map(|rule| Charge::new(keys[key], cost, rule)).collect();
                assert_eq!(subject.settle(&charges), model.settle(&charges));
            }
        },
    );
}

/// A shadow policy reports what it would decide if it were enforced, request for request.
pub fn a_shadow_says_what_enforcing_would(subject: &impl Subject) {
    let request = (0..4_u64, prop_oneof![Just(0), 0..=1_000_000_u64]);
    let requests = prop::collection::vec(request, 1..40);
    for_all(
        subject.share_of(CASES / 2),
        (prop::collection::vec(limits(), 1..4), requests),
        |(limits, requests)| {
            let enforced: Vec<Rule> = limits.into_iter().map(rule).collect();
            let shadows: Vec<Rule> =
                enforced.iter().map(|it| Rule { enforced: false, ..rule(it.limit) }).collect();
            let key = fresh();
            let mut now = Timestamp::from_secs(1_000_000);
            for (cost, wait) in requests {
                now = now + Span::from_micros(wait);
                subject.set_now(now);
                let cost = Cost::new(cost).unwrap();
                let settle = |rules: &[Rule]| {
                    let charges: Vec<_> =
                        rules.iter().map(|rule| Charge::new(key, cost, rule)).collect();
                    subject.settle(&charges)
                };
                let (passes, verdicts) = settle(&enforced);
                assert_eq!(settle(&shadows), (true, verdicts.clone()));
                assert_eq!(verdicts.iter().all(|verdict| verdict.allowed), passes);
            }
        },
    );
}

/// What one key or one rule does is invisible to every other key and rule.
pub fn counters_are_apart(subject: &impl Subject) {
    for_all(
        subject.share_of(CASES / 4).max(8),
        (traces(Mix::STEADY), limits()),
        |(trace, other)| {
            let mut busy = Play::new(subject, trace.limit, trace.start);
            let idle = Play::new(subject, trace.limit, trace.start);
            let elsewhere = Play::new(subject, other, trace.start);
            busy.play_all(&trace.events);
            for untouched in [&idle, &elsewhere] {
                let verdict = untouched.peek();
                assert_eq!(verdict.remaining, verdict.limit);
                assert_eq!(untouched.time_to_live(), None);
            }
        },
    );
}
