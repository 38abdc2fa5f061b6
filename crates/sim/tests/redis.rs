//! Replays a log through memory and through Redis: the decisions are the same, to the last unit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::config::PolicySource;
use tidegate::{
    Charge, ChargeIntent, Cost, Decision, Plan, PlanLimiter, Promise, RedisConfig, RedisStore,
    RequestCharges, SettleResult, Span, Store, StoreError, Timestamp, Verdicts,
};
use tidegate_sim::log::{LogGenerator, LogInput, LogLineFormat, LogReader};
use tidegate_sim::{MemoryReplayLimiter, ReplayLimiter, WorkProgress};
use tidegate_testkit::Redis;
use tokio::runtime::Runtime;

/// A Redis store for replays. It hides that the store is shared, since the state for that depends on the
/// real clock.
struct InLogTime(RedisStore);

impl Store for InLogTime {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        self.0.settle(charges, deadline, out)
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.reset(charge).await
    }
}

struct RedisReplayLimiter {
    runtime: Runtime,
    plan: Arc<Plan>,
    limiter: PlanLimiter<InLogTime>,
}

impl ReplayLimiter for RedisReplayLimiter {
    fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    fn decide(&self, request_charges: &RequestCharges<'_>, at: Timestamp) -> Decision {
        self.limiter.store().0.set_now(at);
        self.runtime
            .block_on(self.limiter.decide(request_charges, ChargeIntent::Take).into_future())
    }
}

const POLICIES: &str = "
policies:
  - { name: window, key: [ip], limits: [30/minute] }
  - { name: fixed, key: [ip], limits: [20/10s], algorithm: fixed-window }
  - { name: bucket, key: [user], limits: [60/minute burst 10] }
  - { name: login, match: { path: /login }, key: [ip], limits: [5/minute, 30/hour],
      algorithm: sliding-log, block_for: 15m }
  - { name: all, key: [], limits: [400/minute], mode: shadow }
";

#[test]
fn a_log_gives_the_same_decisions_in_memory_and_in_redis() {
    let redis = Redis::start();
    let config: RedisConfig = redis.url().parse().unwrap();
    let store = RedisStore::builder(config.connect_timeout(Duration::from_secs(10)))
        .manual_clock()
        .deadline(Duration::from_secs(20))
        .build();
    let plan = || Plan::compile(&PolicySource::new("limits.yaml", POLICIES).unwrap()).unwrap();
    let memory = MemoryReplayLimiter::new(plan());
    let limiter = PlanLimiter::new(plan(), InLogTime(store));
    let redis =
        RedisReplayLimiter { runtime: Runtime::new().unwrap(), plan: limiter.plan(), limiter };

    let mut log = Vec::new();
    LogGenerator { lines: 12_000, seed: 11, format: LogLineFormat::Json }.write(&mut log).unwrap();
    // A day of it in a quarter of an hour, so that limits bite.
    let reader = LogReader::new(memory.plan().attributes());
    let (mut requests, mut denied) = (0, 0);
    reader
        .read(vec![LogInput::bytes("access.log", log)], &WorkProgress::default(), |request| {
            let at = Timestamp::from_micros(START + (request.at.as_micros() - START) / 100);
            let decide = |limiter: &dyn ReplayLimiter| {
                let request_charges = limiter.plan().charges(request, Cost::ONE);
                limiter.decide(&request_charges, at)
            };
            let (one, other) = (decide(&memory), decide(&redis));
            assert_eq!(one, other, "line {} at {at:?}", request.line);
            requests += 1;
            denied += u32::from(!one.is_allowed());
        })
        .unwrap();
    assert_eq!(requests, 12_000);
    assert!((500..10_000).contains(&denied), "{denied} denied: there is little to compare");
}

/// 31 December 2024, before the first line.
const START: u64 = 1_735_603_200_000_000;
