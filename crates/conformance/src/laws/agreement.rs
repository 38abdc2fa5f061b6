//! The store decides like the model, to the last unit and microsecond.

use proptest::prelude::*;
use tidegate_core::{Charge, Cost, Rule, Span, Timestamp};

use super::CASES;
use crate::Subject;
use crate::model::ModelStore;
use crate::trace::{Mix, Play, Trace, for_all, fresh, large_traces, limits, rule, traces};

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

/// A key's own windows are windows too.
pub fn staggered_windows_keep_the_law(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::STEADY), |trace| compare(subject, &trace, true));
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
        for (key, rule, wait) in requests {
            now = now + Span::from_micros(wait);
            subject.set_now(now);
            model.set_now(now);
            let charge = Charge::new(keys[key], Cost::ONE, &rules[rule % rules.len()]);
            assert_eq!(subject.check(&charge), model.check(&charge));
        }
    });
}

/// Requests that are charged to several limits at once: all of them pay, or none.
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
