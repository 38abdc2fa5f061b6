//! Named examples: known bugs, questions and disputes, each as a test.

use tidegate_core::algorithm::{Algorithm, FixedWindow};
use tidegate_core::{AlgorithmKind, Charge, Cost, Limit, MAX_COUNT, Quota, Rule, Span, Timestamp};

use crate::Subject;
use crate::trace::{Play, fresh, rule};

fn limit(kind: AlgorithmKind, quota: &str) -> Limit {
    Limit::new(kind, &quota.parse().unwrap()).unwrap()
}

fn all(quota: &str) -> impl Iterator<Item = Limit> {
    AlgorithmKind::ALL.iter().map(move |kind| limit(*kind, quota))
}

/// How many of `calls` requests pass now.
fn passing(play: &Play<'_, impl Subject>, calls: usize) -> usize {
    (0..calls).filter(|_| play.check(1).allowed).count()
}

/// The boundary burst: five at second 59 and five at 61, with a limit of five a minute. The fixed
/// window admits all ten within two seconds; the log and the counter do not.
pub fn five_at_59_and_five_at_61(subject: &impl Subject) {
    for (kind, second_burst) in [
        (AlgorithmKind::FixedWindow, 5),
        (AlgorithmKind::SlidingWindow, 0),
        (AlgorithmKind::SlidingLog, 0),
        (AlgorithmKind::TokenBucket, 0),
        (AlgorithmKind::SteppedWindow, 0),
    ] {
        let mut play = Play::new(subject, limit(kind, "5/minute"), Timestamp::from_secs(59));
        assert_eq!(passing(&play, 5), 5, "{kind}");
        play.set_now(Timestamp::from_secs(61));
        assert_eq!(passing(&play, 5), second_burst, "{kind}");
    }
}

/// Another GCRA clamps the arrival time at `now - tolerance` instead of `now`, so that a pause of
/// 8.9 intervals after one request admits 17 with a burst of 10.
pub fn a_forgotten_bucket_is_no_fuller_than_an_idle_one(subject: &impl Subject) {
    let bucket = limit(AlgorithmKind::TokenBucket, "60/minute burst 10");
    for (first, pause) in [(1, 8_900), (1, 5_000), (10, 17_900), (10, 60_000)] {
        let mut play = Play::new(subject, bucket, Timestamp::from_secs(1_000));
        assert_eq!(passing(&play, first), first);
        play.wait(Span::from_millis(pause));
        assert_eq!(passing(&play, 30), 10, "{first} and a pause of {pause} ms");
    }
}

/// Another sliding window ignores the cost in its check: ten with nine left are denied, charged,
/// and block everyone until the reset.
pub fn a_cost_above_the_remaining_is_denied_and_not_charged(subject: &impl Subject) {
    for limit in all("10/minute") {
        let play = Play::new(subject, limit, Timestamp::from_secs(1_000));
        assert!(play.check(1).allowed);
        for _ in 0..5 {
            let verdict = play.check(10);
            assert!(!verdict.allowed && verdict.retry_after.is_some(), "{limit}");
            assert_eq!(verdict.remaining, 9, "{limit}");
        }
        assert!(play.check(9).allowed, "{limit}");
    }
}

/// A cost above the limit is denied forever, has no `retry_after`, and leaves nothing behind.
pub fn a_cost_above_the_limit_can_never_pass(subject: &impl Subject) {
    for limit in all("10/minute") {
        let play = Play::new(subject, limit, Timestamp::from_secs(1_000));
        for cost in [11, 1_000, MAX_COUNT] {
            let verdict = play.check(cost);
            assert!(verdict.is_hopeless(), "{limit}");
            assert_eq!((verdict.remaining, play.time_to_live()), (10, None), "{limit}");
        }
    }
}

/// Another limiter rounds a time to live below a second down to zero, and never limits 6,000 a
/// second with a burst of 6,000.
pub fn a_fast_rate_with_a_large_burst_limits(subject: &impl Subject) {
    let bucket = limit(AlgorithmKind::TokenBucket, "6000/s burst 6000");
    let mut play = Play::new(subject, bucket, Timestamp::from_secs(1_000));
    assert_eq!(passing(&play, 7_000), 6_000);
    play.wait(Span::from_millis(500));
    assert_eq!(passing(&play, 7_000), 3_000);
}

/// Another sliding window never allows anything when the limit is one.
pub fn a_limit_of_one_allows_one(subject: &impl Subject) {
    for limit in all("1/minute") {
        let mut play = Play::new(subject, limit, Timestamp::from_secs(60_000));
        assert_eq!(passing(&play, 3), 1, "{limit}");
        play.wait(play.check(1).retry_after.unwrap());
        assert_eq!(passing(&play, 3), 1, "{limit}");
    }
}

/// A limit of zero is a block list: it denies, promises nothing and stores nothing.
pub fn a_limit_of_zero_denies_without_a_trace(subject: &impl Subject) {
    for limit in all("0/second") {
        let play = Play::new(subject, limit, Timestamp::from_secs(1_000));
        for cost in [0, 1, 5] {
            assert!(play.check(cost).is_hopeless(), "{limit}");
        }
        assert_eq!(play.time_to_live(), None, "{limit}");
    }
}

/// A request that is charged twice to one counter pays the sum, or nothing.
pub fn the_same_counter_twice_pays_for_both(subject: &impl Subject) {
    for limit in all("5/minute") {
        subject.set_now(Timestamp::from_secs(1_000));
        let (rule, key) = (rule(limit), fresh());
        let charge = |cost| Charge::new(key, Cost::new(cost).unwrap(), &rule);
        assert!(!subject.settle(&[charge(3), charge(3)]).0, "{limit}");
        assert_eq!(subject.peek(&charge(1)).remaining, 5, "{limit}");
        assert!(subject.settle(&[charge(3), charge(2)]).0, "{limit}");
        assert_eq!(subject.peek(&charge(1)).remaining, 0, "{limit}");
    }
}

/// With `count_denied`, and only then, a denied request counts: even one that another limit denied.
pub fn denied_requests_count_only_when_asked_to(subject: &impl Subject) {
    let plain = FixedWindow::from_quota(&"5/minute".parse().unwrap()).unwrap();
    for (fixed, remaining) in [(plain, 5), (plain.counting_denied(), 3)] {
        subject.set_now(Timestamp::from_secs(1_000));
        let (counted, closed) =
            (rule(fixed.into()), rule(limit(AlgorithmKind::FixedWindow, "0/s")));
        let key = fresh();
        let charge = |rule| Charge::new(key, Cost::ONE, rule);
        for _ in 0..2 {
            assert!(!subject.settle(&[charge(&counted), charge(&closed)]).0);
        }
        assert_eq!(subject.peek(&charge(&counted)).remaining, remaining);
    }
}

/// Another quota for the same counter finds the old count.
pub fn a_changed_limit_keeps_the_count(subject: &impl Subject) {
    for kind in AlgorithmKind::ALL {
        subject.set_now(Timestamp::from_secs(1_000));
        let (old, key) = (rule(limit(*kind, "10/day")), fresh());
        let ask =
            |rule: &Rule, cost| subject.check(&Charge::new(key, Cost::new(cost).unwrap(), rule));
        assert!(ask(&old, 8).allowed, "{kind}");
        let raised = Rule { limit: limit(*kind, "100/day"), ..old };
        assert_eq!(ask(&raised, 0).remaining, 92, "{kind}");
        let lowered = Rule { limit: limit(*kind, "5/day"), ..old };
        let verdict = ask(&lowered, 1);
        assert!(!verdict.allowed && verdict.remaining == 0, "{kind}");
        assert!(verdict.retry_after.unwrap() <= lowered.limit.period(), "{kind}");
        assert_eq!(ask(&old, 0).remaining, 2, "{kind}");
    }
}

/// A clock that jitters at the edge of a window does not give anyone another quota.
pub fn a_trembling_clock_resets_nothing(subject: &impl Subject) {
    let edge = Timestamp::from_secs(60_000);
    for limit in all("5/minute") {
        let mut play = Play::new(subject, limit, edge);
        let mut passed = passing(&play, 10);
        for _ in 0..4 {
            play.set_now(edge.before(Span::from_micros(1)));
            passed += passing(&play, 10);
            play.set_now(edge);
            passed += passing(&play, 10);
        }
        assert_eq!(passed, 5, "{limit}");
    }
}

/// The largest numbers that a constructor accepts, at the latest time there is.
pub fn extreme_numbers_do_not_overflow(subject: &impl Subject) {
    for kind in AlgorithmKind::ALL {
        let most = if *kind == AlgorithmKind::SlidingLog { 100_000 } else { MAX_COUNT };
        for window in [Quota::MIN_WINDOW, Quota::MAX_WINDOW] {
            for start in [Timestamp::ZERO, Timestamp::MAX] {
                let quota = Quota::new(most, window).unwrap();
                let mut play = Play::new(subject, Limit::new(*kind, &quota).unwrap(), start);
                assert!(play.check(most - 1).allowed, "{kind} {quota}");
                assert_eq!(play.check(1).remaining, 0, "{kind} {quota}");
                assert!(!play.check(MAX_COUNT).allowed, "{kind} {quota}");
                play.refund(MAX_COUNT);
                play.set_now(Timestamp::MAX);
                let _ = play.check(most);
                play.set_now(Timestamp::ZERO);
                let _ = play.check(most);
            }
        }
    }
}

/// Three a second, seven in ten seconds and one and a half million a second, taken as soon as they
/// are available, add up to exactly that rate over any time.
pub fn rates_do_not_drift(subject: &impl Subject) {
    for (quota, seconds, expected) in [
        ("3/s burst 2", Span::from_secs(1_000), 3_000),
        ("7 per 10s burst 2", Span::from_secs(5_000), 3_500),
        ("1_500_000/s burst 3", Span::from_millis(10), 15_000),
    ] {
        let bucket = limit(AlgorithmKind::TokenBucket, quota);
        let start = Timestamp::from_secs(1_763_000_000);
        let mut play = Play::new(subject, bucket, start);
        assert!(play.check(bucket.capacity()).allowed, "{quota}");
        let mut admitted = 0;
        while play.now() <= start + seconds {
            match play.check(1).retry_after {
                None => admitted += 1,
                Some(wait) => play.wait(wait),
            }
        }
        assert_eq!(admitted, expected, "{quota}");
    }
}
