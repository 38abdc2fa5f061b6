//! Time: every counter expires, and a clock that goes back does no harm.

use proptest::prelude::*;
use tidegate_core::{AlgorithmKind, Limit, Span};

use super::CASES;
use crate::Subject;
use crate::trace::{Mix, Play, for_all, traces};

/// Law 5: an expired counter decides like a new key, and after one idle period the full quota is
/// available.
pub fn what_is_forgotten_is_fresh(subject: &impl Subject) {
    for_all(subject.share_of(CASES), (traces(Mix::STEADY), 0..20_u64), |(trace, cost)| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        play.play_all(&trace.events);
        let period = trace.limit.period();
        let lifetime = play.time_to_live().unwrap_or_default();
        assert!(lifetime <= period, "{lifetime} {period}");
        play.wait(lifetime);
        let fresh = Play::new(subject, trace.limit, play.now());
        assert_eq!(play.peek(), fresh.peek());
        assert_eq!(play.check(cost), fresh.check(cost));
        play.wait(period);
        assert_eq!(play.peek().remaining, trace.limit.capacity());
    });
}

/// Law 8: every counter has a time to live, and it is at most one period.
pub fn every_key_expires(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::COSTS), |trace| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        for event in &trace.events {
            let verdict = play.play(*event);
            let paid = matches!(event, crate::trace::Event::Check(cost) if !cost.is_peek());
            if paid && verdict.is_some_and(|verdict| verdict.allowed) {
                let lifetime = play.time_to_live().expect("a counter that was just paid");
                assert!(lifetime > Span::ZERO && lifetime <= trace.limit.period());
            }
        }
    });
}

/// A clock that goes back does not give anyone more quota, and does not deny anyone for long.
pub fn a_clock_that_goes_back_adds_nothing_and_denies_nobody_for_long(subject: &impl Subject) {
    let jump = prop_oneof![0..1_000_000_u64, 0..10_u64.pow(11)];
    for_all(subject.share_of(CASES), (traces(Mix::COSTS), jump), |(trace, jump)| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        play.play_all(&trace.events);
        let before = play.peek().remaining;
        play.set_now(play.now().before(Span::from_micros(jump)));
        assert!(play.peek().remaining <= before);
        let denied = play.check(play.peek().remaining + 1);
        assert!(!denied.allowed);
        let longest = longest_denial(&trace.limit);
        assert!(denied.retry_after.unwrap_or_default() <= longest);
        play.wait(longest);
        assert_eq!(play.peek().remaining, trace.limit.capacity());
    });
}

/// How long requests may be denied after the clock went back by any amount: two periods, or for a
/// bucket two windows, or more if its burst is larger than the limit.
fn longest_denial(limit: &Limit) -> Span {
    let AlgorithmKind::TokenBucket = limit.kind() else { return limit.period() + limit.period() };
    let quota = limit.quota();
    let windows =
        [1, 8, 64].into_iter().find(|windows| limit.capacity() <= quota.limit() * windows);
    Span::from_micros(2 * windows.expect("a small burst") * quota.window().as_micros())
}

/// A clock that goes back and forth leaves everything as it was.
pub fn a_clock_that_trembles_changes_nothing(subject: &impl Subject) {
    let steps = prop::collection::vec(1..1_000_u64, 1..6);
    for_all(subject.share_of(CASES), (traces(Mix::COSTS), steps), |(trace, steps)| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        play.play_all(&trace.events);
        let now = play.now();
        let before = play.peek().remaining;
        for step in steps {
            let back = Span::from_micros(trace.limit.quota().window().as_micros() * step / 1_000);
            play.set_now(now.before(back));
            assert!(!play.check(play.peek().remaining + 1).allowed);
            play.set_now(now);
            assert!(play.peek().remaining <= before, "{back} back and forth");
        }
    });
}
