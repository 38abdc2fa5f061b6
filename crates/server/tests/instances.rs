//! Instances that share a Redis know about each other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::time::Duration;

use tidegate::config::PolicySource;
use tidegate::{Cost, RedisConfig, RedisStore, Store};
use tidegate_server::{App, InstanceRoster};
use tidegate_testkit::Redis;

struct Instance {
    app: App<RedisStore>,
    roll: InstanceRoster,
}

impl Instance {
    fn start(redis: &Redis, secret: &str, limit: u32) -> Self {
        let config: RedisConfig = redis.url().parse().unwrap();
        // Generous, since slow machines are not what these tests are about.
        let builder = RedisStore::builder(config.connect_timeout(Duration::from_secs(5)));
        let store = builder.secret(secret).deadline(Duration::from_secs(5)).build();
        let text = format!(
            "policies: [{{ name: a, key: [user], limits: [{limit}/day], algorithm: fixed-window }}]"
        );
        let roll = InstanceRoster::new(store.profile().shared_secret.unwrap(), 1);
        let app = App::load(&PolicySource::new("limits.yaml", text).unwrap(), store).unwrap();
        Self { app, roll }
    }

    async fn call(&mut self) -> Vec<String> {
        self.roll.sign_and_read(&self.app).await.unwrap()
    }

    /// How many of twice the limit pass.
    async fn admitted(&self, user: &str, limit: u32) -> u32 {
        let mut admitted = 0;
        for _ in 0..2 * limit {
            let decision = self.app.limiter().check(&[("user", user)], Cost::ONE).await;
            assert_eq!(decision.source(), tidegate::DecisionSource::Fallback);
            admitted += u32::from(decision.is_allowed());
        }
        admitted
    }
}

#[tokio::test]
async fn instances_that_know_each_other_admit_the_limit_together_without_redis() {
    for limit in [1, 5, 20] {
        let redis = Redis::start();
        let mut all: Vec<Instance> = (0..3).map(|_| Instance::start(&redis, "s", limit)).collect();
        // All instances register, and then each sees all of them.
        for _ in 0..2 {
            for instance in &mut all {
                assert_eq!(instance.call().await, [""; 0]);
            }
        }
        redis.kill();
        for user in ["alice", "bob"] {
            let mut admitted = 0;
            for instance in &all {
                admitted += instance.admitted(user, limit).await;
            }
            assert_eq!(admitted, limit, "{user}");
        }
    }
}

#[tokio::test]
async fn a_lost_list_of_instances_enlarges_no_share() {
    let redis = Redis::start();
    let mut all: Vec<Instance> = (0..3).map(|_| Instance::start(&redis, "s", 20)).collect();
    for _ in 0..2 {
        for instance in &mut all {
            instance.call().await;
        }
    }
    redis.command(&["FLUSHALL"]);
    // One instance registers again, and Redis goes away before the others do.
    all[0].call().await;
    redis.kill();
    let mut admitted = 0;
    for instance in &all {
        admitted += instance.admitted("alice", 20).await;
    }
    assert_eq!(admitted, 20);
}

#[tokio::test]
async fn another_secret_is_noticed_at_once_and_by_both() {
    let redis = Redis::start();
    let [mut one, mut two] = ["s", "other"].map(|secret| Instance::start(&redis, secret, 20));
    assert_eq!(one.call().await, [""; 0]);
    for instance in [&mut two, &mut one] {
        let warnings = instance.call().await;
        assert!(warnings[0].starts_with("another secret is in use at "), "{warnings:?}");
        assert_eq!(instance.call().await, [""; 0], "once");
    }
    // Each is the only instance with its secret.
    redis.kill();
    assert_eq!(one.admitted("alice", 20).await, 20);
}
