//! A program whose store has a key format, beside another limiter: a limiter, and a plan.

use std::time::Duration;

use tidegate::config::PolicySource;
use tidegate::{Cost, KeyFormat, Limiter, PlanLimiter, RedisConfig, RedisStore};
use tokio::runtime::{Builder, Runtime};

use crate::other_limiters::{Kind, Neighbour};
use crate::{REDIS, keys_of, user};

const DAY: u64 = 86_400;

fn store(kind: Kind) -> RedisStore {
    let config: RedisConfig = REDIS.url().parse().unwrap();
    let format: KeyFormat = kind.template().parse().unwrap();
    let builder = RedisStore::builder(config).deadline(Duration::from_secs(5));
    builder.key_format(format).unwrap().build()
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_limiter_counts_in_the_keys_of_the_other() {
    for kind in Kind::ALL {
        let user = user();
        let limiter = Limiter::builder().name("login").algorithm(kind.algorithm().parse().unwrap());
        let limiter = limiter.limit("5/day").store(store(kind)).build().unwrap();
        let mut neighbour = Neighbour::new(kind, &REDIS, &user, 5, DAY);
        assert!(neighbour.take() && neighbour.take());
        let keys = keys_of(&user);
        runtime().block_on(async {
            let remaining = limiter.check(&user).await.remaining();
            assert_eq!(remaining, Some(2), "{kind:?}");
            assert_eq!(limiter.peek(&user).await.remaining(), Some(2), "{kind:?}");
            assert!(limiter.until_ready(&user).await.is_ok(), "{kind:?}");
            limiter.refund(&user, Cost::ONE).await.unwrap();
            let decision = limiter.check_n(&user, Cost::new(2).unwrap()).await;
            assert!(decision.is_allowed() && decision.remaining() == Some(0), "{kind:?}");
        });
        assert_eq!(keys_of(&user), keys, "{kind:?}");
        assert!(!neighbour.take(), "{kind:?}");
        runtime().block_on(limiter.reset(&user)).unwrap();
        // What is left is the window before this one.
        assert!(keys_of(&user).len() < keys.len().max(1) + usize::from(kind == Kind::Hybrid));
        assert!(neighbour.take(), "{kind:?}");
    }
}

#[test]
fn a_plan_without_a_key_format_counts_in_the_stores_keys() {
    for kind in Kind::ALL {
        let user = user();
        let text = format!(
            "policies: [{{ name: login, key: [user], limits: [5/day], algorithm: {} }}]",
            kind.algorithm()
        );
        let source = PolicySource::new("limits.yaml", text).unwrap();
        let limiter = PlanLimiter::load(&source, store(kind)).unwrap();
        let mut neighbour = Neighbour::new(kind, &REDIS, &user, 5, DAY);
        assert!(neighbour.take());
        let keys = keys_of(&user);
        let request = [("user", &user[..])];
        let check = || limiter.check(&request, Cost::new(2).unwrap());
        let remaining = || runtime().block_on(check()).remaining();
        assert_eq!(remaining(), Some(2), "{kind:?}");
        // Also after a reload.
        limiter.reload(&source).unwrap();
        assert_eq!(remaining(), Some(0), "{kind:?}");
        assert_eq!(keys_of(&user), keys, "{kind:?}");
        assert!(!neighbour.take(), "{kind:?}");
    }
}

#[test]
fn numbers_addresses_and_several_parts_are_written_as_in_a_file() {
    let limiter = Limiter::builder().name("program").algorithm("sliding-log".parse().unwrap());
    let limiter = limiter.limit("5/day").store(store(Kind::RlaasLog)).build().unwrap();
    let address: std::net::IpAddr = "2001:db8::77".parse().unwrap();
    runtime().block_on(async {
        assert!(limiter.check(&("program", 77_u64)).await.is_allowed());
        assert!(limiter.check(&("program", address)).await.is_allowed());
    });
    let mut names = keys_of("program:77");
    names.extend(keys_of("program:2001%3adb8%3a%3a/64"));
    assert_eq!(
        names,
        ["rlaas:rate_limit:program:77", "rlaas:rate_limit:program:2001%3adb8%3a%3a/64"]
    );
}

/// A file says how long keys outlive their window, as the other limiter's settings do.
#[test]
fn a_template_says_how_long_keys_are_kept() {
    let user = user();
    let text = "key_format: 'kept:{entity}:{window_start} +5m'\npolicies: [{ name: login, \
                key: [user], limits: [5/day], algorithm: fixed-window }]";
    let config: RedisConfig = REDIS.url().parse().unwrap();
    let store = RedisStore::builder(config).deadline(Duration::from_secs(5)).build();
    let source = PolicySource::new("limits.yaml", text).unwrap();
    let limiter = PlanLimiter::load(&source, store).unwrap();
    let request = [("user", &user[..])];
    assert!(runtime().block_on(limiter.check(&request, Cost::ONE)).is_allowed());
    let keys = keys_of(&user);
    let [key] = &keys[..] else { panic!("{keys:?}") };
    let now = REDIS.command(&["TIME"]).items()[0].integer() as u64;
    assert_eq!(*key, format!("kept:{user}:{}", now / DAY * DAY));
    let left = REDIS.command(&["TTL", key]).integer() as u64;
    let expected = DAY - now % DAY + 300;
    assert!((expected - 30..=expected + 1).contains(&left), "{left} of {expected}");
}
