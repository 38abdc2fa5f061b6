//! Tiers of one policy share a counter: a caller that can choose its tier gains nothing.

#![allow(clippy::unwrap_used, reason = "tests panic")]

use std::time::Duration;

use tidegate::config::PolicySource as Text;
use tidegate::{ChargeIntent, Cost, MemoryStore, PlanLimiter, RedisConfig, RedisStore, Store};
use tidegate_testkit::Redis;

const USER: (&str, &str) = ("user", "eve");
const PRO: (&str, &str) = ("plan", "pro");

const ALGORITHMS: [&str; 5] =
    ["token-bucket", "fixed-window", "sliding-window", "sliding-log", "stepped-window"];

fn by<S: Store>(policies: &str, store: S) -> PlanLimiter<S> {
    let text = format!("defaults: {{ store_deadline: 2s }}\npolicies:\n{policies}");
    PlanLimiter::load(&Text::new("limits.yaml", text).unwrap(), store).unwrap()
}

fn in_redis(redis: &Redis) -> RedisStore {
    let config: RedisConfig = redis.url().parse().unwrap();
    RedisStore::builder(config.connect_timeout(Duration::from_secs(2))).build()
}

fn tiers(algorithm: &str) -> String {
    format!(
        "
  - name: tiers
    key: [user]
    algorithm: {algorithm}
    limits: [1/day]
    tiers: [{{ when: {{ plan: pro }}, limits: [20/day] }}]"
    )
}

/// Checks as the large tier until it is denied, then once as the small one, over and over.
async fn admitted<S: Store>(limiter: &PlanLimiter<S>) -> u32 {
    let mut admitted = 0;
    for _ in 0..30 {
        while limiter.check(&[USER, PRO], Cost::ONE).await.is_allowed() {
            admitted += 1;
        }
        admitted += u32::from(limiter.check(&[USER], Cost::ONE).await.is_allowed());
    }
    admitted
}

#[tokio::test]
async fn leaving_an_attribute_out_gives_no_quota_back() {
    let redis = Redis::start();
    for algorithm in ALGORITHMS {
        let policies = tiers(algorithm);
        // A day may begin in between, but no more than one.
        assert!(admitted(&by(&policies, MemoryStore::new())).await <= 41, "{algorithm}");
        let limiter = by(&policies, in_redis(&redis));
        assert!(admitted(&limiter).await <= 41, "{algorithm} in Redis");
    }
}

#[tokio::test]
async fn both_stores_say_the_same_beside_a_limit_that_never_fits() {
    for never in ["0/day", "2/day"] {
        let redis = Redis::start();
        let policies = format!(
            "
  - {{ name: users, key: [user], limits: [10/day], algorithm: token-bucket }}
  - {{ name: plans, key: [plan], limits: [{never}], algorithm: token-bucket }}"
        );
        let seven = Cost::new(7).unwrap();
        let three = Cost::new(3).unwrap();
        let memory = by(&policies, MemoryStore::new());
        let remote = by(&policies, in_redis(&redis));
        assert!(memory.check(&[USER], seven).await.is_allowed());
        assert!(remote.check(&[USER], seven).await.is_allowed());
        for again in [false, true] {
            let told =
                [memory.check(&[USER, PRO], three).await, remote.check(&[USER, PRO], three).await];
            for decision in told {
                assert!(!decision.is_allowed());
                let left: Vec<_> =
                    decision.verdicts().iter().map(|verdict| verdict.remaining).collect();
                let expected = if never == "0/day" { 0 } else { 2 };
                assert_eq!(left, [3, expected], "{never}, again: {again}");
            }
        }
    }
}

/// What a peek reports.
async fn left<S: Store>(limiter: &PlanLimiter<S>) -> u64 {
    let plan = limiter.plan();
    limiter
        .decide(&plan.charges(&[USER], Cost::PEEK), ChargeIntent::Peek)
        .await
        .remaining()
        .unwrap()
}

/// Eight of twenty are used. Then the limit is four for one request, which is denied, and twenty again.
async fn left_after_a_limit_came_and_went<S: Store>(algorithm: &str, store: S) -> u64 {
    let limited = |units: u32| {
        format!(
            "
  - {{ name: a, key: [user], limits: [{units}/day], algorithm: {algorithm} }}"
        )
    };
    let limiter = by(&limited(20), store);
    let reload = |units| {
        let text = format!("defaults: {{ store_deadline: 2s }}\npolicies:\n{}", limited(units));
        limiter.reload(&Text::new("limits.yaml", text).unwrap()).unwrap();
    };
    assert!(limiter.check(&[USER], Cost::new(8).unwrap()).await.is_allowed());
    reload(4);
    assert!(!limiter.check(&[USER], Cost::ONE).await.is_allowed());
    reload(20);
    left(&limiter).await
}

#[tokio::test]
async fn a_limit_that_is_lowered_and_raised_again_forgets_no_use() {
    let redis = Redis::start();
    for algorithm in ALGORITHMS {
        // A day may begin in between; but four are not given back.
        let is_kept = |left: u64| left == 12 || left == 20;
        let left = left_after_a_limit_came_and_went(algorithm, MemoryStore::new()).await;
        assert!(is_kept(left), "{algorithm}: {left}");
        let left = left_after_a_limit_came_and_went(algorithm, in_redis(&redis)).await;
        assert!(is_kept(left), "{algorithm} in Redis: {left}");
    }
}

/// What remains by a denial that counts, and by a peek after it.
async fn told_by_a_denial_that_counts<S: Store>(store: S) -> (u64, u64) {
    let limiter = by(
        "
  - { name: a, key: [user], limits: [3/400d], algorithm: fixed-window, count_denied: true }",
        store,
    );
    let two = Cost::new(2).unwrap();
    assert!(limiter.check(&[USER], two).await.is_allowed());
    let denied = limiter.check(&[USER], two).await;
    assert!(!denied.is_allowed());
    (denied.remaining().unwrap(), left(&limiter).await)
}

#[tokio::test]
async fn a_denial_that_counts_says_what_is_left_after_it() {
    let redis = Redis::start();
    assert_eq!(told_by_a_denial_that_counts(MemoryStore::new()).await, (0, 0));
    assert_eq!(told_by_a_denial_that_counts(in_redis(&redis)).await, (0, 0));
}
