//! What stays in Redis, and for how long.

use std::time::Duration;

use tidegate_store::{Store, StoreErrorKind};
use tidegate_store_redis::KeyFormat;
use tidegate_testkit::Reply;

use crate::other_limiters::{Kind, Neighbour};
use crate::our_store::{Ours, builder};
use crate::{REDIS, keys_of, user};

const HOUR: i64 = 3_600_000;

/// What is left of the only key's time, in milliseconds.
fn time_to_live(user: &str) -> i64 {
    let keys = keys_of(user);
    assert_eq!(keys.len(), 1, "{keys:?}");
    REDIS.command(&["PTTL", &keys[0]]).integer()
}

/// How long a key may live: a sliding window also counts in the next one, and a log stays for another.
fn longest(kind: Kind) -> i64 {
    match kind {
        Kind::Hybrid => 2 * HOUR + 1000,
        Kind::RlaasLog => 2 * HOUR,
        _ => HOUR + 1000,
    }
}

#[test]
fn every_key_that_we_write_expires() {
    for kind in Kind::ALL {
        let user = user();
        let ours = Ours::like(kind, &user, "5/hour");
        for _ in 0..7 {
            let _ = ours.take(1);
            let time = time_to_live(&user);
            assert!(0 < time && time <= longest(kind), "{kind:?}: {time}");
        }
        ours.refund(2);
        let time = time_to_live(&user);
        assert!(0 < time && time <= longest(kind), "{kind:?}: {time}");
    }
}

#[test]
fn a_long_enough_expiry_of_the_other_limiter_is_kept() {
    for kind in Kind::ALL {
        let user = user();
        let mut theirs = Neighbour::new(kind, &REDIS, &user, 5, 3600);
        assert!(theirs.take());
        let before = time_to_live(&user);
        let _ = Ours::like(kind, &user, "5/hour").take(1);
        let after = time_to_live(&user);
        // A log's last entry is ours now, and its time to live counts from there.
        let most = if kind == Kind::RlaasLog { longest(kind) } else { before };
        assert!(after <= most && before - after < 10_000, "{kind:?}: {before} {after}");
    }
}

#[test]
fn a_log_is_gone_two_windows_after_its_last_entry() {
    let user = user();
    let ours = Ours::like(Kind::RlaasLog, &user, "5/hour");
    // First as a new key, then as one that has lived for a while.
    for _ in 0..2 {
        let _ = ours.take(1);
        let time = time_to_live(&user);
        assert!(2 * HOUR - 10_000 < time && time <= 2 * HOUR, "{time}");
        let shorter = (HOUR + 60_000).to_string();
        REDIS.command(&["PEXPIRE", &keys_of(&user)[0], &shorter]);
    }
}

#[test]
fn a_key_without_an_end_gets_one_whatever_is_decided() {
    for kind in Kind::ALL {
        for cost in [1, 5] {
            let user = user();
            let ours = Ours::like(kind, &user, "5/hour");
            let _ = ours.take(2);
            REDIS.command(&["PERSIST", &keys_of(&user)[0]]);
            // A peek touches nothing.
            assert_eq!(ours.remaining(), 3);
            assert_eq!(time_to_live(&user), -1, "{kind:?}");
            assert_eq!(ours.take(cost).allowed, cost == 1, "{kind:?}");
            let time = time_to_live(&user);
            assert!(0 < time && time <= longest(kind), "{kind:?} {cost}: {time}");
        }
    }
}

#[test]
fn a_denial_and_a_peek_leave_nothing_behind() {
    for kind in Kind::ALL {
        let user = user();
        let ours = Ours::like(kind, &user, "5/hour");
        assert!(!ours.take(6).allowed);
        assert_eq!(ours.remaining(), 5);
        ours.refund(3);
        assert_eq!(keys_of(&user), Vec::<String>::new(), "{kind:?}");
        let _ = ours.take(5);
        let key = keys_of(&user).remove(0);
        let before = REDIS.command(&["DUMP", &key]);
        for cost in [0, 1, 3] {
            let _ = ours.take(cost);
        }
        assert_eq!(REDIS.command(&["DUMP", &key]), before, "{kind:?}");
        ours.reset();
        assert_eq!(keys_of(&user), Vec::<String>::new(), "{kind:?}");
    }
}

#[test]
fn the_buffer_is_the_operators_choice() {
    let user = user();
    let longer: KeyFormat = Kind::RlaasLog.template().parse().unwrap();
    let longer = longer.expiry_buffer(Duration::from_secs(3600));
    let ours = Ours::like(Kind::RlaasLog, &user, "5/hour");
    let _ = ours.through(builder(&REDIS.url()).key_format(longer).unwrap()).take(1);
    let time = time_to_live(&user);
    assert!(2 * HOUR - 5_000 < time && time <= 2 * HOUR, "{time}");
}

#[test]
fn what_is_no_count_is_an_error_and_stays_as_it_is() {
    let wrong: [&[&str]; 3] = [&["SET", "", "many"], &["SET", "", "1.5"], &["LPUSH", "", "1"]];
    for words in wrong {
        for kind in Kind::ALL {
            let user = user();
            let ours = Ours::like(kind, &user, "5/hour");
            let _ = ours.take(1);
            let key = keys_of(&user).remove(0);
            REDIS.command(&["DEL", &key]);
            REDIS.command(&[words[0], &key, words[2]]);
            let error = ours.try_settle(&[ours.charge(1)]).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::WrongType, "{kind:?} {error}");
            assert_eq!(REDIS.command(&["PTTL", &key]), Reply::Integer(-1), "{kind:?}");
            assert!(ours.store.is_available() && ours.store.profile().shared_secret.is_some());
        }
    }
}

#[test]
fn a_negative_count_is_read_as_zero() {
    let user = user();
    let ours = Ours::like(Kind::Java, &user, "5/hour");
    let _ = ours.take(1);
    let key = keys_of(&user).remove(0);
    REDIS.command(&["SET", &key, "-3"]);
    assert_eq!(ours.remaining(), 5);
    assert_eq!(ours.take(2).remaining, 3);
    assert_eq!(REDIS.command(&["GET", &key]).integer(), 2);
}
