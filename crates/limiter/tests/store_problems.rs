//! The problem that operators see while Redis refuses requests.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use tidegate::{DecisionSource, Limiter, RedisConfig, RedisStore, StoreErrorKind};
use tidegate_testkit::Redis;

/// Each fault, how to cause it, and a word that its message must contain.
const CAUSES: [(&[&str], StoreErrorKind, &str); 4] = [
    (&["CONFIG", "SET", "maxmemory", "1"], StoreErrorKind::Full, "OOM"),
    (&["ACL", "SETUSER", "default", "-@scripting"], StoreErrorKind::Misconfigured, "NOPERM"),
    (&["REPLICAOF", "127.0.0.1", "1"], StoreErrorKind::ReadOnly, "READONLY"),
    (&["CONFIG", "SET", "min-replicas-to-write", "1"], StoreErrorKind::ReadOnly, "NOREPLICAS"),
];

#[tokio::test]
async fn an_open_breaker_reports_the_problem_that_opened_it() {
    for (command, kind, word) in CAUSES {
        let redis = Redis::start();
        let config: RedisConfig = redis.url().parse().unwrap();
        let store = RedisStore::builder(config).deadline(Duration::from_secs(5)).build();
        let limiter = Limiter::builder().limit("1000/day").store(store).build().unwrap();
        assert_eq!(limiter.check("eve").await.source(), DecisionSource::Store);
        redis.command(command).or_panic();
        let mut unasked = 0;
        while unasked < 100 {
            assert_eq!(limiter.check("eve").await.source(), DecisionSource::Fallback);
            unasked += u32::from(!limiter.store().is_available());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let report = limiter.store_report();
        let problem = report.problem.unwrap();
        assert!(problem.contains(word), "{problem}");
        let others = report.errors.iter().filter(|(other, count)| *other != kind && *count > 0);
        assert_eq!(others.count(), 0, "{word}: {:?}", report.errors);
    }
}
