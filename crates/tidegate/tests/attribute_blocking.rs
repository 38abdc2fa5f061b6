//! Limited functions that are not async, on a store in Redis that async code uses too. In its own test
//! binary, because a process has one store.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::attribute;
use tidegate::{DecisionSource, Denied, Limiter, RedisConfig, RedisStore, rate_limit};
use tidegate_testkit::Redis;
use tokio::runtime::Builder;

const LIMIT: usize = 6;

type Shared = Arc<RedisStore>;

#[rate_limit(name = "hashes", quota = "6/day", algorithm = "fixed-window", key = |user| user)]
fn hash(user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[rate_limit(name = "hashes", limiter = limiter, key = |user| user)]
fn hash_by(limiter: &Limiter<Shared>, user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

#[rate_limit(name = "hashes", limiter = limiter, key = |user| user, on_denied = wait)]
fn hash_in_line(limiter: &Limiter<Shared>, user: &str) -> Result<(), Denied> {
    let _ = user;
    Ok(())
}

fn store(redis: &Redis) -> Shared {
    let config: RedisConfig = redis.url().parse().unwrap();
    // Slow machines have slow tests, which is not what these are about.
    let deadline = Duration::from_secs(2);
    Arc::new(RedisStore::builder(config).secret("a secret").deadline(deadline).build())
}

fn limiter(store: Shared) -> Arc<Limiter<Shared>> {
    let builder = Limiter::builder().name("hashes").algorithm(tidegate::AlgorithmKind::FixedWindow);
    Arc::new(builder.limit("6/day").store(store).build().unwrap())
}

/// Two functions that count one user together: one blocks its thread, the other is async.
struct Instances {
    own: Arc<Limiter<Shared>>,
    other: Arc<Limiter<Shared>>,
}

impl Instances {
    /// Every kind of call takes a unit, until all of them are denied.
    async fn hash(&self, user: &'static str) {
        // The connections of this store are those of this runtime from now on.
        assert_eq!(self.own.peek(user).await.source(), DecisionSource::Store);
        let mut admitted = 0;
        for _ in 0..LIMIT {
            admitted += usize::from(is_admitted(hash(user)));
            admitted += usize::from(is_admitted(hash_by(&self.own, user)));
            let decision = self.other.check(user).await;
            assert_ne!(decision.source(), DecisionSource::Fallback);
            admitted += usize::from(decision.is_allowed());
        }
        assert_eq!(admitted, LIMIT, "{user}");
        assert!(hash_in_line(&self.own, user).is_err());
        // No breaker has opened.
        assert_eq!(self.own.peek(user).await.source(), DecisionSource::Store);
    }
}

fn is_admitted(outcome: Result<(), Denied>) -> bool {
    let Err(denied) = outcome else { return true };
    assert_ne!(denied.decision().map(tidegate::Decision::source), Some(DecisionSource::Fallback));
    false
}

#[test]
fn a_blocking_call_is_decided_by_the_store_on_any_thread() {
    let redis = Redis::start();
    let shared = store(&redis);
    attribute::use_store(Arc::clone(&shared)).unwrap();
    let both = Instances { own: limiter(shared), other: limiter(store(&redis)) };
    let both = Arc::new(both);

    let alone = || Builder::new_current_thread().enable_all().build().unwrap();
    alone().block_on(both.hash("on the only thread"));

    let many = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let on_a_worker = Arc::clone(&both);
    many.block_on(many.spawn(async move { on_a_worker.hash("on a worker").await })).unwrap();
    // All workers concurrently, each for another user.
    let users = ["a", "b", "c", "d"].map(|user| {
        let both = Arc::clone(&both);
        many.spawn(async move { both.hash(user).await })
    });
    for user in users {
        many.block_on(user).unwrap();
    }
    drop(many);

    // Without a runtime, while the runtime of the connections is idle.
    let idle = alone();
    assert_eq!(idle.block_on(both.own.peek("nowhere")).source(), DecisionSource::Store);
    for _ in 0..LIMIT / 2 {
        hash("nowhere").unwrap();
        hash_by(&both.own, "nowhere").unwrap();
    }
    let peeked = idle.block_on(both.other.peek("nowhere"));
    assert_eq!((peeked.source(), peeked.remaining()), (DecisionSource::Store, Some(0)));
    assert!(!is_admitted(hash("nowhere")));
}

#[test]
fn the_first_call_of_a_store_can_come_from_a_thread_without_a_runtime() {
    let redis = Redis::start();
    let (own, other) = (limiter(store(&redis)), limiter(store(&redis)));
    let threads = ["a", "b"].map(|_| {
        let own = Arc::clone(&own);
        std::thread::spawn(move || hash_by(&own, "alice").map_err(|denied| denied.to_string()))
    });
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Ok(()));
    }
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let peeked = runtime.block_on(other.peek("alice"));
    let left = u64::try_from(LIMIT - 2).unwrap();
    assert_eq!((peeked.source(), peeked.remaining()), (DecisionSource::Store, Some(left)));
}
