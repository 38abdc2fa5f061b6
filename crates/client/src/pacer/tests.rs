//! Turns by a server's responses.

use super::*;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn pacer() -> Pacer {
    Pacer::new(true, seconds(86_400))
}

fn named(name: &str, remaining: u64, reset: u64, policy: Option<(u64, u64)>) -> ServerLimit {
    let (quota, window) = policy.unzip();
    let (name, reset, window) = (name.to_owned(), Some(seconds(reset)), window.map(seconds));
    ServerLimit { name, partition: None, remaining, reset, quota, window }
}

fn told(standings: impl IntoIterator<Item = ServerLimit>) -> ServerLimits {
    ServerLimits { limits: standings.into_iter().collect(), ..ServerLimits::default() }
}

/// A response with the state of a limit of ten in a hundred seconds.
fn standing(remaining: u64, reset: u64) -> ServerLimits {
    told([named("a", remaining, reset, Some((10, 100)))])
}

/// The turn of a call with unlimited patience.
fn reserve(pacer: &mut Pacer, now: Instant, jitter: &mut Jitter) -> Instant {
    pacer.reserve(now, Duration::MAX, jitter).unwrap()
}

fn refused(wait: u64) -> ServerLimits {
    ServerLimits { is_refused: true, retry_after: Some(seconds(wait)), ..ServerLimits::default() }
}

#[test]
fn no_call_leaves_before_the_time_that_a_refusal_named() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
    pacer.record_response(&refused(20), 0, now);
    // A later response to a request that was sent earlier changes nothing.
    pacer.record_response(&refused(5), 0, now);
    pacer.record_response(&standing(10, 100), 0, now);
    let starts: Vec<_> = (0..100).map(|_| reserve(&mut pacer, now, &mut jitter)).collect();
    assert!(starts.iter().all(|start| (20..=25).contains(&(*start - now).as_secs())));
    assert!(starts.iter().any(|start| *start - now > seconds(24)));
    let later = now + seconds(20);
    assert_eq!(pacer.blocked_until(later), None);
}

#[test]
fn a_refusal_holds_no_longer_than_it_may() {
    let (mut pacer, now) = (pacer(), Instant::now());
    pacer.record_response(&refused(86_400_000), 0, now);
    assert_eq!(pacer.blocked_until(now), Some(now + seconds(86_400)));
    // Another refusal blocks again.
    let later = now + seconds(86_400);
    assert_eq!(pacer.blocked_until(later), None);
    pacer.record_response(
        &ServerLimits { retry_after: Some(Duration::MAX), ..refused(0) },
        0,
        later,
    );
    assert_eq!(pacer.blocked_until(later), Some(later + seconds(86_400)));
    let mut pacer = Pacer::new(true, Duration::MAX);
    pacer.record_response(&ServerLimits { retry_after: Some(Duration::MAX), ..refused(0) }, 0, now);
    assert!(pacer.blocked_until(now + seconds(86_400_000 - 1)).is_some());
}

#[test]
fn half_of_the_quota_is_free_and_the_rest_is_made_to_last() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    pacer.record_response(&standing(8, 40), 0, now);
    // 8, 7 and 6 of 10 are more than half.
    for _ in 0..3 {
        assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
    }
    // 5 for 40 seconds, then 4, and then no slower than 10 in 100 seconds.
    let gaps: Vec<_> =
        (0..4).map(|_| (reserve(&mut pacer, now, &mut jitter) - now).as_secs()).collect();
    assert_eq!(gaps, [8, 18, 28, 38]);
}

#[test]
fn with_nothing_left_the_next_window_is_waited_for() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    pacer.record_response(&standing(0, 40), 0, now);
    let first = reserve(&mut pacer, now, &mut jitter);
    // Plus up to a quarter of the window as spread.
    assert!((now + seconds(40)..=now + seconds(65)).contains(&first), "{:?}", first - now);
    pacer.record_response(&standing(0, 200), 0, now);
    let second = reserve(&mut pacer, now, &mut jitter);
    assert!((now + seconds(100)..=now + seconds(125)).contains(&second), "{:?}", second - now);
    // The limits have expired.
    let later = now + seconds(201);
    pacer.begin_send(Some(first), later);
    pacer.give_back(second);
    assert_eq!(pacer.known_until(later), None);
    assert_eq!(reserve(&mut pacer, later, &mut jitter), later);
}

#[test]
fn pacing_never_fails_a_call_but_a_refusal_may() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    pacer.record_response(&standing(2, 100), 0, now);
    pacer.begin_send(None, now);
    for patience in [Duration::ZERO, seconds(5)] {
        let start = pacer.reserve(now, patience, &mut jitter).unwrap();
        assert!(start - now <= patience.min(MAX_COURTESY_WAIT), "{:?}", start - now);
        pacer.give_back(start);
    }
    assert_eq!(pacer.reserve(now, seconds(10), &mut jitter), Ok(now + seconds(10)));
    pacer.record_response(&refused(20), 0, now);
    assert_eq!(pacer.reserve(now, seconds(19), &mut jitter), Err(seconds(20)));
    // The server's wait is compared with the patience, and the jitter uses the rest of it.
    assert_eq!(pacer.reserve(now, seconds(20), &mut jitter), Ok(now + seconds(20)));
    for _ in 0..100 {
        let start = pacer.reserve(now, seconds(21), &mut jitter).unwrap();
        assert!((now + seconds(20)..=now + seconds(21)).contains(&start), "{:?}", start - now);
    }
}

#[test]
fn a_turn_that_is_given_back_is_free_again() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    pacer.record_response(&standing(5, 50), 0, now);
    pacer.begin_send(None, now);
    let first = reserve(&mut pacer, now, &mut jitter);
    assert_eq!(first - now, seconds(10));
    let turns: Vec<_> = (0..20).map(|_| reserve(&mut pacer, now, &mut jitter)).collect();
    for turn in turns {
        pacer.give_back(turn);
    }
    // A call without a turn takes none either.
    pacer.record_response(&refused(1), 0, now);
    assert!(pacer.reserve(now, Duration::ZERO, &mut jitter).is_err());
    let later = now + seconds(2);
    assert_eq!(reserve(&mut pacer, later, &mut jitter) - first, seconds(10));
}

#[test]
fn without_a_policy_the_most_that_was_seen_is_the_quota() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    let bare = |remaining| told([named("a", remaining, 10, None)]);
    pacer.record_response(&bare(9), 0, now);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
    pacer.begin_send(Some(now), now);
    pacer.record_response(&bare(2), 0, now);
    assert_eq!(reserve(&mut pacer, now, &mut jitter) - now, seconds(5));
}

#[test]
fn the_strictest_of_several_limits_sets_the_pace() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    let burst = |remaining| named("burst", remaining, 10, Some((5, 10)));
    let daily = |remaining| named("daily", remaining, 80_000, Some((1_000, 86_400)));
    pacer.begin_send(None, now);
    // The burst's two seconds, although the day has the larger gap: it has plenty.
    pacer.record_response(&told([burst(2), daily(900)]), 1, now);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now + seconds(2));
    let number = pacer.begin_send(Some(now + seconds(2)), now);
    // A response can omit one of them.
    pacer.record_response(&told([daily(100)]), number, now);
    assert_eq!((reserve(&mut pacer, now, &mut jitter) - now).as_millis(), 86_400);
    let number = pacer.begin_send(None, now);
    pacer.record_response(&told([daily(800)]), number, now);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now + seconds(2));
}

#[test]
fn limits_of_one_policy_are_told_apart_by_their_windows() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    pacer.begin_send(None, now);
    pacer.record_response(&told([named("a", 2, 10, Some((5, 10)))]), 1, now);
    pacer.record_response(&told([named("a", 900, 80_000, Some((1_000, 86_400)))]), 1, now);
    assert_eq!(pacer.allowances.len(), 2);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now + seconds(2));
    // Without its policy it is the known limit of that name.
    pacer.record_response(&told([named("a", 5, 10, None)]), 1, now);
    assert_eq!(pacer.allowances.len(), 2);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
}

#[test]
fn partitions_of_one_policy_are_told_apart() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    let part = |partition: &str, remaining| {
        let partition = Some(partition.to_owned());
        told([ServerLimit { partition, ..named("a", remaining, 100, Some((10, 100))) }])
    };
    pacer.record_response(&part("x", 6), 0, now);
    // The remainder of another partition is separate, and counts separately.
    for _ in 0..20 {
        let number = pacer.begin_send(None, now);
        pacer.record_response(&part("y", 9), number, now);
    }
    assert_eq!(pacer.allowances.len(), 2);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
    let number = pacer.begin_send(Some(now), now);
    pacer.record_response(&part("x", 1), number, now);
    assert!(reserve(&mut pacer, now, &mut jitter) > now);
}

#[test]
fn a_limit_that_does_not_say_how_long_lasts_for_its_window_or_as_before() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    let unsaid = |policy| told([ServerLimit { reset: None, ..named("a", 0, 0, policy) }]);
    // The duration is unknown.
    pacer.record_response(&unsaid(None), 0, now);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
    pacer.record_response(&told([named("a", 9, 40, None)]), 0, now);
    pacer.record_response(&unsaid(None), 0, now + seconds(10));
    assert_eq!(pacer.known_until(now), Some(now + seconds(40)));
    pacer.record_response(&unsaid(Some((10, 100))), 0, now);
    assert_eq!(pacer.known_until(now), Some(now + seconds(100)));
    assert!(reserve(&mut pacer, now, &mut jitter) >= now + seconds(100));
}

#[test]
fn no_limit_of_a_refusal_holds_for_longer_than_it_says_to_wait() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    let standings = vec![named("a", 0, 100, Some((10, 100))), named("b", 9, 50, Some((10, 100)))];
    pacer.record_response(&told(standings.clone()), 0, now);
    pacer.record_response(&ServerLimits { limits: standings.clone(), ..refused(20) }, 0, now);
    assert_eq!(reserve(&mut pacer, now + seconds(20), &mut jitter), now + seconds(20));
    // Nor for longer than a refusal can hold.
    let mut pacer = Pacer::new(true, seconds(30));
    pacer.record_response(&ServerLimits { limits: standings, ..refused(100) }, 0, now);
    assert_eq!(reserve(&mut pacer, now + seconds(30), &mut jitter), now + seconds(30));
}

#[test]
fn what_another_policy_counted_is_not_counted_here() {
    let (mut pacer, mut jitter, now) = (pacer(), Jitter::seeded(7), Instant::now());
    pacer.record_response(&told([named("search", 3, 100, Some((4, 100)))]), 0, now);
    for _ in 0..20 {
        assert_eq!(reserve(&mut pacer, now, &mut jitter), now);
        let number = pacer.begin_send(Some(now), now);
        pacer.record_response(&told([named("read", 900, 100, Some((1_000, 100)))]), number, now);
    }
    // A response without limits may have counted under any of them.
    let number = pacer.begin_send(None, now);
    pacer.record_response(&ServerLimits::default(), number, now);
    assert_eq!(reserve(&mut pacer, now, &mut jitter), now + seconds(25));
}

#[test]
fn a_server_cannot_name_more_limits_than_are_kept() {
    let (mut pacer, now) = (pacer(), Instant::now());
    for n in 1..100 {
        pacer.record_response(&told([named(&n.to_string(), 0, n, None)]), 0, now);
    }
    assert_eq!(pacer.allowances.len(), MAX_LIMITS);
    // The allowances that hold for longest are kept.
    assert_eq!(pacer.known_until(now + seconds(98)), Some(now + seconds(99)));
    assert_eq!(pacer.known_until(now + seconds(99)), None);
}
