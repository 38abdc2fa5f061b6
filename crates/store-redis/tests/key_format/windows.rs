//! Times under control: windows and logs to the exact moment.

use tidegate_core::Span;

use crate::other_limiters::{Kind, Neighbour};
use crate::our_store::Ours;
use crate::{REDIS, keys_of, user};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
/// The start of some minute.
const START: u64 = 28_333_333 * MINUTE;

#[test]
fn keys_are_named_after_their_windows() {
    for (kind, name) in [
        (Kind::RlaasWindow, "rlaas:rate_limit:USER:28333333"),
        (Kind::RlaasLog, "rlaas:rate_limit:USER"),
        (Kind::Gateway, "gw:USER:login:1699999980"),
        (Kind::Hybrid, "sw:{USER}:1699999980"),
        (Kind::Java, "ratelimiter:USER:1699999980000"),
    ] {
        let user = user();
        let ours = Ours::like_at(kind, &user, "5/minute");
        ours.set_now(START + 59 * SECOND);
        let _ = ours.take(1);
        assert_eq!(keys_of(&user), [name.replace("USER", &user)], "{kind:?}");
        let shown = String::from_utf8(ours.store.key_name(&ours.charge(1))).unwrap();
        assert_eq!(shown.contains('*'), kind != Kind::RlaasLog, "{shown}");
    }
}

#[test]
fn a_fixed_window_ends_at_its_edge() {
    let ours = Ours::like_at(Kind::Gateway, &user(), "5/minute");
    ours.set_now(START + 59 * SECOND);
    assert_eq!(ours.take(5).reset_after, Span::from_secs(1));
    let denied = ours.take(1);
    assert_eq!((denied.allowed, denied.retry_after), (false, Some(Span::from_secs(1))));
    ours.set_now(START + MINUTE - 1);
    assert!(!ours.take(1).allowed);
    ours.set_now(START + MINUTE);
    assert_eq!(ours.take(1).remaining, 4);
}

#[test]
fn two_adjacent_windows_weigh_alike_on_both_sides() {
    let user = user();
    let ours = Ours::like_at(Kind::Hybrid, &user, "10/minute");
    let mut theirs = Neighbour::new(Kind::Hybrid, &REDIS, &user, 10, 60);
    ours.set_now(START + 30 * SECOND);
    assert!((0..4).all(|_| theirs.take_at(START + 30 * SECOND)));
    assert_eq!(ours.take(4).remaining, 2);
    // 8 before. A quarter into the next window, 6 of them still weigh in.
    let later = START + MINUTE + 15 * SECOND;
    ours.set_now(later);
    assert_eq!(ours.remaining(), 4);
    assert!(theirs.take_at(later) && theirs.take_at(later));
    assert_eq!(ours.take(2).remaining, 0);
    assert!(!theirs.take_at(later));
    let wait = ours.take(1).retry_after.unwrap().as_micros();
    assert_eq!(wait, 7_500_000);
    ours.set_now(later + wait - 1);
    assert!(!ours.take(1).allowed && !theirs.take_at(later + wait - 1));
    ours.set_now(later + wait);
    assert!(ours.take(1).allowed && !theirs.take_at(later + wait));
    // Gives back more than this window has: the rest comes out of the previous one.
    assert_eq!(ours.remaining(), 0);
    ours.refund(12);
    ours.set_now(later);
    assert_eq!(ours.remaining(), 9);
}

#[test]
fn a_window_outlives_the_next_one_where_that_counts() {
    let user = user();
    let ours = Ours::like_at(Kind::Hybrid, &user, "10/minute");
    ours.set_now(START + 20 * SECOND);
    let _ = ours.take(1);
    let key = keys_of(&user).remove(0);
    let time = || REDIS.command(&["PTTL", &key]).integer();
    assert!((99_000..=101_000).contains(&time()), "{}", time());
    // Found without an expiry in the next window, it gets what is left of that one.
    REDIS.command(&["PERSIST", &key]);
    ours.set_now(START + MINUTE + 20 * SECOND);
    let _ = ours.take(1);
    assert!((39_000..=41_000).contains(&time()), "{}", time());
    REDIS.command(&["PERSIST", &key]);
    assert!(!ours.take(10).allowed);
    assert!((39_000..=41_000).contains(&time()), "{}", time());
}

#[test]
fn a_log_is_exact_to_the_millisecond() {
    let user = user();
    let ours = Ours::like_at(Kind::RlaasLog, &user, "3/minute");
    ours.set_now(START + 400);
    assert_eq!(ours.take(1).reset_after, Span::from_micros(MINUTE - 400));
    ours.set_now(START + 10 * SECOND);
    assert_eq!(ours.take(2).remaining, 0);
    let score = REDIS.command(&["ZRANGE", &keys_of(&user)[0], "0", "0", "WITHSCORES"]);
    assert_eq!(score.items()[1].text(), (START / 1000).to_string());
    // One leaves after a minute from the beginning of its millisecond, the other two later.
    for (cost, leaves) in [(1, START + MINUTE), (2, START + 70 * SECOND)] {
        ours.set_now(START + 20 * SECOND + 300);
        let wait = ours.take(cost).retry_after.unwrap().as_micros();
        assert_eq!(START + 20 * SECOND + 300 + wait, leaves);
        ours.set_now(leaves - 1);
        assert!(!ours.take(cost).allowed);
    }
    ours.set_now(START + MINUTE);
    assert!(ours.take(1).allowed);
}

#[test]
fn a_clock_that_runs_ahead_denies_nobody_for_longer_than_a_window() {
    let user = user();
    let ours = Ours::like_at(Kind::RlaasLog, &user, "3/minute");
    ours.set_now(START);
    let key = format!("rlaas:rate_limit:{user}");
    let ahead = ((START + 3600 * SECOND) / 1000).to_string();
    REDIS.command(&["ZADD", &key, &ahead, "a", "inf", "b", &ahead, "c"]);
    let denied = ours.take(1);
    assert_eq!((denied.allowed, denied.retry_after), (false, Some(Span::from_secs(60))));
    ours.set_now(START + MINUTE - 1);
    assert!(!ours.take(1).allowed);
    ours.set_now(START + MINUTE);
    assert_eq!(ours.take(1).remaining, 2);
}

#[test]
fn a_large_cost_is_as_many_members() {
    let user = user();
    let ours = Ours::like_at(Kind::RlaasLog, &user, "5000/minute");
    ours.set_now(START);
    assert_eq!(ours.take(2500).remaining, 2500);
    assert_eq!(ours.take(2500).remaining, 0);
    assert_eq!(REDIS.command(&["ZCARD", &keys_of(&user)[0]]).integer(), 5000);
    ours.refund(1200);
    assert_eq!(ours.remaining(), 1200);
}
