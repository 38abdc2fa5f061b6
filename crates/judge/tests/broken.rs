//! Limiters that are broken on purpose: the judge finds what is wrong with each.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

mod support;

use std::collections::HashMap;

use support::{Answered, Asked, Limiter, Network, Ours, history, plan};
use tidegate_core::algorithm::{FixedWindow, SlidingLog, SlidingWindow, TokenBucket};
use tidegate_core::{AlgorithmKind, Span};
use tidegate_judge::{FindingKind, Judge, JudgedRule, Judgement};

const SECOND: i64 = 1_000_000;

fn rule(kind: AlgorithmKind, quota: &str) -> JudgedRule {
    JudgedRule::new(kind, &quota.parse().unwrap()).unwrap()
}

fn judged(rule: JudgedRule, seed: u64, limiter: &mut dyn Limiter) -> Judgement {
    let plan = plan(seed, Span::from_secs(20));
    let mut made = history(&plan, &rule, Network::FAST, limiter);
    Judge::new(rule).judge(&mut made)
}

/// The limiter is found out, whatever the seed.
#[track_caller]
fn found_out<L: Limiter>(rule: JudgedRule, kind: FindingKind, limiter: impl Fn() -> L) {
    for seed in 1..=5 {
        let judgement = judged(rule, seed, &mut limiter());
        assert!(judgement.counts.contains_key(&kind), "seed {seed}: {:?}", judgement.counts);
        let example = judgement.counterexamples.iter().find(|it| it.kind == kind).unwrap();
        assert!(example.wrong < example.calls.len() && !example.sentence.is_empty());
    }
}

/// A count for each key and window. `admits` says whether a cost fits.
fn counting(admits: fn(u64, u64) -> bool) -> impl Limiter {
    let mut counts = HashMap::<(u32, i64), u64>::new();
    move |asked: Asked| {
        let count = counts.entry((asked.key, asked.now / SECOND)).or_default();
        let allowed = admits(*count, asked.cost);
        *count += if allowed { asked.cost } else { 0 };
        Answered::plain(allowed)
    }
}

#[test]
fn a_limit_that_is_off_by_one() {
    let rule = rule(AlgorithmKind::FixedWindow, "10/second");
    found_out(rule, FindingKind::OverAdmission, || counting(|count, cost| count + cost <= 11));
    found_out(rule, FindingKind::FalseDenial, || counting(|count, cost| count + cost < 10));
}

#[test]
fn updates_that_are_lost_when_calls_overlap() {
    let rule = rule(AlgorithmKind::FixedWindow, "10/second");
    found_out(rule, FindingKind::OverAdmission, || {
        // A count is written some time after it was read, over whatever came in between.
        let mut writes = Vec::<(i64, u32, i64, u64)>::new();
        move |asked: Asked| {
            let window = asked.now / SECOND;
            let seen = writes
                .iter()
                .rev()
                .find(|(at, key, of, _)| *at <= asked.now && (*key, *of) == (asked.key, window));
            let count = seen.map_or(0, |(.., count)| *count);
            let allowed = count + asked.cost <= 10;
            if allowed {
                writes.push((asked.now + 300, asked.key, window, count + asked.cost));
            }
            Answered::plain(allowed)
        }
    });
}

#[test]
fn a_counter_that_never_expires() {
    let rule = rule(AlgorithmKind::FixedWindow, "10/second");
    found_out(rule, FindingKind::FalseDenial, || {
        let mut counts = HashMap::<u32, u64>::new();
        move |asked: Asked| {
            let count = counts.entry(asked.key).or_default();
            let allowed = *count + asked.cost <= 10;
            *count += if allowed { asked.cost } else { 0 };
            Answered::plain(allowed)
        }
    });
}

#[test]
fn a_counter_whose_life_is_prolonged_by_each_call() {
    let rule = rule(AlgorithmKind::FixedWindow, "10/second").with_loose_windows().unwrap();
    found_out(rule, FindingKind::FalseDenial, || {
        let mut counts = HashMap::<u32, (i64, u64)>::new();
        move |asked: Asked| {
            let (until, count) = counts.entry(asked.key).or_default();
            *count = if asked.now >= *until { 0 } else { *count };
            *until = asked.now + SECOND;
            let allowed = *count + asked.cost <= 10;
            *count += if allowed { asked.cost } else { 0 };
            Answered::plain(allowed)
        }
    });
}

#[test]
fn instances_that_decide_by_clocks_of_their_own() {
    let rule = rule(AlgorithmKind::SlidingLog, "10/second");
    found_out(rule, FindingKind::OverAdmission, || {
        let mut log = Ours::<SlidingLog>::new("10/second");
        move |asked: Asked| {
            let now = asked.now + i64::from(asked.instance) * SECOND * 7 / 10;
            log.ask(Asked { now, ..asked })
        }
    });
}

#[test]
fn a_refund_of_more_than_was_taken() {
    let rule = rule(AlgorithmKind::FixedWindow, "10/second");
    found_out(rule, FindingKind::OverAdmission, || {
        let mut counts = HashMap::<(u32, i64), u64>::new();
        move |asked: Asked| {
            let count = counts.entry((asked.key, asked.now / SECOND)).or_default();
            let allowed = *count + asked.cost <= 10;
            // A denied call gives back what it never took.
            *count = if allowed { *count + asked.cost } else { count.saturating_sub(asked.cost) };
            Answered::plain(allowed)
        }
    });
}

#[test]
fn denials_that_are_charged() {
    let rule = rule(AlgorithmKind::TokenBucket, "10/second burst 5");
    found_out(rule, FindingKind::ChargedDenial, || {
        let mut buckets = HashMap::<u32, i64>::new();
        move |asked: Asked| {
            let full_at = buckets.entry(asked.key).or_default();
            let after = (*full_at).max(asked.now) + asked.cost as i64 * SECOND / 10;
            *full_at = after.min(asked.now + 3 * SECOND);
            Answered::plain(after <= asked.now + SECOND / 2)
        }
    });
}

#[test]
fn a_remaining_that_was_read_before_it_was_taken() {
    let rule = rule(AlgorithmKind::SlidingLog, "10/second");
    found_out(rule, FindingKind::WrongRemaining, || {
        let mut log = Ours::<SlidingLog>::new("10/second");
        move |asked: Asked| {
            let answered = log.ask(asked);
            let taken = if answered.allowed { asked.cost } else { 0 };
            Answered { remaining: answered.remaining.map(|left| left + taken), ..answered }
        }
    });
}

/// Scales the wait of a bucket.
fn waiting(scale: fn(i64) -> i64) -> impl Limiter {
    let mut bucket = Ours::<TokenBucket>::new("3/second burst 4");
    move |asked: Asked| {
        let answered = bucket.ask(asked);
        Answered { retry_after: answered.retry_after.map(scale), ..answered }
    }
}

#[test]
fn a_wait_that_is_too_short_or_too_long() {
    let rule = rule(AlgorithmKind::TokenBucket, "3/second burst 4");
    let kind = FindingKind::WrongRetryAfter;
    found_out(rule, kind, || waiting(|wait| wait / 2));
    found_out(rule, kind, || waiting(|wait| wait * 2));
    // Whole seconds, rounded down.
    found_out(rule, kind, || waiting(|wait| wait / SECOND * SECOND));
    // Even if nothing is known about the rule.
    let at_most = JudgedRule::at_most(&"20/second".parse().unwrap()).unwrap();
    found_out(at_most, kind, || waiting(|wait| wait / 2));
}

#[test]
fn an_edge_of_fixed_windows_where_any_window_was_promised() {
    let rule = JudgedRule::at_most(&"10/second".parse().unwrap()).unwrap();
    found_out(rule, FindingKind::OverAdmission, || Ours::<FixedWindow>::new("10/second"));
    found_out(rule, FindingKind::OverAdmission, || Ours::<SlidingWindow>::new("10/second"));
}

#[test]
fn a_counter_for_each_instance() {
    for kind in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow] {
        found_out(rule(kind, "10/second"), FindingKind::OverAdmission, || {
            let mut each = [(); 2].map(|()| Ours::<SlidingWindow>::new("10/second"));
            move |asked: Asked| each[asked.instance as usize].ask(asked)
        });
    }
}

#[test]
fn a_cost_that_is_not_looked_at() {
    let rule = rule(AlgorithmKind::TokenBucket, "10/second burst 8");
    found_out(rule, FindingKind::OverAdmission, || {
        let mut bucket = Ours::<TokenBucket>::new("10/second burst 8");
        move |asked: Asked| bucket.ask(Asked { cost: 1, ..asked })
    });
}

#[test]
fn a_bucket_that_overflows() {
    let rule = rule(AlgorithmKind::TokenBucket, "10/second burst 5");
    found_out(rule, FindingKind::OverAdmission, || Ours::<TokenBucket>::new("10/second burst 6"));
    found_out(rule, FindingKind::OverAdmission, || Ours::<TokenBucket>::new("12/second burst 5"));
    // What refills too slowly may look as if denials were charged.
    for seed in 1..=5 {
        let slow = judged(rule, seed, &mut Ours::<TokenBucket>::new("8/second burst 5"));
        let kinds = [FindingKind::FalseDenial, FindingKind::ChargedDenial];
        assert!(kinds.iter().any(|kind| slow.counts.contains_key(kind)), "{:?}", slow.counts);
    }
}

#[test]
fn the_evidence_of_an_excess_is_as_small_as_it_can_be() {
    let rule = rule(AlgorithmKind::FixedWindow, "10/second");
    let judgement = judged(rule, 1, &mut counting(|count, cost| count + cost <= 11));
    let example =
        judgement.counterexamples.iter().find(|it| it.kind == FindingKind::OverAdmission).unwrap();
    let units: u64 = example.calls.iter().map(|call| call.cost).sum();
    assert!(units > 10 && example.calls.iter().all(|call| units - call.cost <= 10), "{example:#?}");
}
