//! What time does: it heals everything, and does no harm when it goes back.

use proptest::prelude::*;
use tidegate_core::Span;

use super::CASES;
use crate::Subject;
use crate::trace::{Mix, Play, for_all, traces};

/// Law 5: what may be forgotten decides like a key never seen, and after one idle period the full
/// quota is there.
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

/// A clock that goes back gives nobody anything, and denies nobody for longer than one period.
pub fn a_clock_that_goes_back_adds_nothing_and_denies_for_one_period(subject: &impl Subject) {
    let jump = prop_oneof![0..1_000_000_u64, 0..10_u64.pow(11)];
    for_all(subject.share_of(CASES), (traces(Mix::COSTS), jump), |(trace, jump)| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        play.play_all(&trace.events);
        let before = play.peek().remaining;
        play.set_now(play.now().before(Span::from_micros(jump)));
        assert!(play.peek().remaining <= before);
        let denied = play.check(play.peek().remaining + 1);
        assert!(!denied.allowed);
        assert!(denied.retry_after.unwrap_or_default() <= trace.limit.period());
        play.wait(trace.limit.period());
        assert_eq!(play.peek().remaining, trace.limit.capacity());
    });
}
