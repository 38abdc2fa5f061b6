//! A store whose breaker is open recovers, with access to no keys but its own.

use std::time::Duration;

use tidegate_testkit::{Redis, wait_until};

use crate::other_limiters::Kind;
use crate::our_store::{Ours, builder, limit};

#[test]
fn the_probe_needs_no_other_keys_than_the_formats() {
    for kind in [Kind::RlaasWindow, Kind::RlaasLog] {
        let redis = Redis::start();
        let words = ["ACL", "SETUSER", "limiter", "on", ">secret", "~rlaas:rate_limit:*", "+@all"];
        assert!(redis.command(&words).is_ok());
        let url = redis.url().replace("redis://", "redis://limiter:secret@");
        let limit = limit(kind.algorithm(), "5/hour");
        let format = kind.template().parse().unwrap();
        let hasty = builder(&url).deadline(Duration::from_millis(200)).key_format(format).unwrap();
        let ours = Ours::new(&url, kind.template(), limit, "alice", false).through(hasty);
        assert_eq!(ours.take(2).remaining, 3);
        redis.pause();
        for _ in 0..6 {
            let _ = ours.try_settle(&[ours.charge(1)]).unwrap_err();
        }
        assert!(!ours.store.is_available());
        redis.resume();
        wait_until("the probe succeeds", Duration::from_secs(10), || ours.store.is_available());
        assert!(ours.remaining() <= 3);
        let probes = redis.command(&["KEYS", "*tidegate-probe*"]);
        for key in probes.items() {
            let time = redis.command(&["PTTL", &key.text()]).integer();
            assert!((-2..=2000).contains(&time) && time != -1, "{time}");
        }
    }
}
