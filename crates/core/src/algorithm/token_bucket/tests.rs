use super::*;

fn bucket(quota: &str) -> TokenBucket {
    TokenBucket::from_quota(&quota.parse().unwrap()).unwrap()
}

#[test]
fn rates_are_exact_for_ever() {
    for (quota, rate, seconds) in [("3/second burst 1", 3, 1_000), ("7 per 10s burst 1", 7, 1_000)]
    {
        let (limit, mut state, mut now) = (bucket(quota), BucketDebt::default(), Timestamp::ZERO);
        let mut admitted = 0;
        let end = limit.window.as_micros() * seconds;
        while now.as_micros() < end {
            let verdict = limit.probe(&state, Cost::ONE, now);
            if verdict.allowed {
                admitted += 1;
                let _ = limit.commit(&mut state, Cost::ONE, now);
            }
            let wait = limit.probe(&state, Cost::ONE, now).retry_after;
            now = now + wait.unwrap_or(Span::from_micros(1));
        }
        assert_eq!(admitted, rate * seconds, "{quota}");
    }
}

#[test]
fn a_raised_limit_keeps_the_count_and_helps_at_once() {
    let now = Timestamp::from_secs(100);
    let mut state = BucketDebt::default();
    let _ = bucket("10/day").commit(&mut state, Cost::new(10).unwrap(), now);
    assert_eq!(bucket("100/day").probe(&state, Cost::ONE, now).remaining, 90);
}

#[test]
fn a_denial_by_a_smaller_limit_gives_nothing_back() {
    let now = Timestamp::from_secs(100);
    let (large, small) = (bucket("100/hour"), bucket("1/hour"));
    let mut state = BucketDebt::default();
    let _ = large.commit(&mut state, Cost::new(80).unwrap(), now);
    let before = state;
    let verdict = small.probe(&state, Cost::ONE, now);
    // 80 tokens of the larger limit take 48 minutes.
    assert_eq!(verdict.retry_after, Some(Span::from_secs(48 * 60)));
    small.deny(&mut state, Cost::ONE, now);
    assert_eq!(state, before);
    assert_eq!(large.probe(&state, Cost::ONE, now).remaining, 20);
    // A refund removes as much debt, and the rest does not take longer.
    small.refund(&mut state, Cost::new(30).unwrap(), now);
    let verdict = large.probe(&state, Cost::ONE, now);
    assert_eq!((verdict.remaining, verdict.reset_after), (50, Span::from_secs(30 * 60)));
}

#[test]
fn a_lowered_burst_waits_for_what_was_used_and_forgets_none_of_it() {
    let now = Timestamp::from_secs(100);
    let (large, small) = (bucket("1/second burst 1000"), bucket("1/second burst 5"));
    let mut state = BucketDebt::default();
    let _ = large.commit(&mut state, Cost::new(1000).unwrap(), now);
    let verdict = small.probe(&state, Cost::new(5).unwrap(), now);
    assert_eq!(verdict.retry_after, Some(Span::from_secs(1000)));
    small.deny(&mut state, Cost::new(5).unwrap(), now);
    assert_eq!(large.probe(&state, Cost::ONE, now).remaining, 0);
}

#[test]
fn a_jittering_clock_adds_nothing_and_a_clock_set_back_recovers() {
    let (limit, now) = (bucket("10/second"), Timestamp::from_secs(1_000));
    let mut state = BucketDebt::default();
    let _ = limit.commit(&mut state, Cost::new(10).unwrap(), now);
    for _ in 0..40 {
        for at in [now.before(Span::from_millis(700)), now] {
            assert!(!limit.admits(&state, Cost::ONE, at));
            limit.deny(&mut state, Cost::ONE, at);
        }
    }
    let long_ago = Timestamp::from_secs(10);
    limit.deny(&mut state, Cost::ONE, long_ago);
    let verdict = limit.probe(&state, Cost::ONE, long_ago);
    assert_eq!(verdict.retry_after, Some(Span::from_millis(100)));
}

#[test]
fn a_pace_bounds_the_time_of_a_refill() {
    for (quota, windows) in [
        ("100/hour", 1),
        ("100/hour burst 5", 1),
        ("100/hour burst 101", 8),
        ("1/hour burst 100", 512),
    ] {
        let limit = bucket(quota);
        assert!(limit.pace() < 1 << 53);
        assert_eq!(limit.pace.longest(limit.window), Span::from_secs(windows * 3_600));
        assert!(limit.period() <= limit.pace.longest(limit.window));
    }
    let slow = bucket("1/second burst 1000000");
    assert_eq!((slow.pace.rate(), slow.pace.longest(slow.window)), (1, LONGEST_REFILL));
}

#[test]
fn a_bucket_that_would_never_refill_is_refused() {
    for text in ["0/second burst 5", "1/day burst 1000"] {
        let error = TokenBucket::from_quota(&text.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("expected"), "{error}");
    }
    assert!(!bucket("0/second").probe(&BucketDebt::default(), Cost::PEEK, Timestamp::ZERO).allowed);
}
