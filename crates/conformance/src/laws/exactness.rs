//! The numbers in a verdict mean what they say.

use tidegate_core::{Span, Verdict};

use super::CASES;
use crate::Subject;
use crate::trace::{Mix, Play, for_all, traces};

/// Law 2: after a denial or a peek, everything is as it was.
pub fn a_denial_or_a_peek_changes_nothing(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::STEADY), |trace| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        play.play_all(&trace.events);
        let lifetime = play.time_to_live();
        let before = profile(&play);
        assert_eq!(profile(&play), before);
        // A log drops what has left its window whenever it is read; nothing lives longer because of
        // that.
        assert!(play.time_to_live() <= lifetime);
    });
}

/// The verdicts of a peek and of everything that is denied.
fn profile(play: &Play<'_, impl Subject>) -> Vec<Verdict> {
    let peek = play.peek();
    let denied = (peek.remaining + 1..=peek.limit + 1).map(|cost| play.check(cost));
    let verdicts: Vec<_> = [peek].into_iter().chain(denied).collect();
    assert!(verdicts[1..].iter().all(|verdict| !verdict.allowed));
    verdicts
}

/// Law 3: what remains passes, and one more does not.
pub fn remaining_is_exact(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::STEADY), |trace| {
        let mut play = Play::new(subject, trace.limit, trace.start);
        for event in &trace.events {
            if let Some(verdict) = play.play(*event) {
                let remaining = play.peek().remaining;
                assert_eq!(verdict.remaining, remaining);
                assert!(!play.check(remaining + 1).allowed);
            }
        }
        let remaining = play.peek().remaining;
        assert!(play.check(remaining).allowed);
        assert_eq!(play.peek().remaining, 0);
    });
}

/// Law 4: one microsecond before `retry_after` a request is denied, and then it is admitted.
pub fn retry_after_is_exact(subject: &impl Subject) {
    for_all(subject.share_of(CASES), traces(Mix::STEADY), |trace| {
        for before in [1, 0] {
            let mut play = Play::new(subject, trace.limit, trace.start);
            play.play_all(&trace.events);
            let verdict = play.check(play.peek().remaining + 1);
            assert!(!verdict.allowed);
            let Some(wait) = verdict.retry_after else {
                assert!(play.peek().remaining == verdict.limit, "full, or there is a way");
                return;
            };
            let cost = verdict.remaining + 1;
            play.wait(wait.minus(Span::from_micros(before)));
            assert_eq!(play.check(cost).allowed, before == 0, "{before} us before {wait}");
        }
    });
}
