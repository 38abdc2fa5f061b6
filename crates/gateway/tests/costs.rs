//! The cost of a request, taken from the request itself or from its response.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::echo::Echo;
use support::{Front, front, request, with};
use tidegate::config::PolicySource;
use tidegate::{
    Charge, Cost, DecisionReason, ManualClock, MemoryStore, PlanLimiter, Promise, SettleResult,
    Span, Store, StoreError, StoreErrorKind, StoreHealth, Timestamp, Verdicts,
};
use tidegate_gateway::config::SECTIONS;
use tidegate_server::ListenerConfig;

#[tokio::test]
async fn only_failed_attempts_count() {
    let echo = Echo::start().await;
    let policy = "[{ name: logins, key: [ip], limits: [3/minute], algorithm: sliding-log, \
                  cost: { response_status: [401, 5xx] } }]";
    let front = front(echo.address, policy).await;
    for _ in 0..10 {
        assert_eq!(front.get("/login?status=200").await.status, 200);
    }
    for status in [401, 500, 401] {
        assert_eq!(front.get(&format!("/login?status={status}")).await.status, status);
    }
    assert_eq!(front.get("/login?status=200").await.status, 429);
    assert_eq!(echo.requests(), 13);
}

#[tokio::test]
async fn where_only_failures_count_what_is_under_way_blocks_nobody() {
    let second = Span::from_secs(1);
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let text = "policies: [{ name: login, key: [user], limits: [2/1s], block_for: 10m, \
                algorithm: sliding-log, cost: { response_status: [401] } }]";
    let source = PolicySource::new("limits.yaml", text).unwrap().with_sections(SECTIONS);
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = PlanLimiter::load(&source, store).unwrap();
    let check = async || limiter.check(&[("user", "alice")], Cost::ONE).await;
    assert!(check().await.is_allowed() && check().await.is_allowed());
    let denied = check().await;
    assert_eq!(
        (denied.reason(), denied.retry_span()),
        (DecisionReason::LimitExceeded, Some(second))
    );
    clock.advance(second);
    assert!(check().await.is_allowed());
    // One attempt has failed and another is allowed; its failure uses up the quota.
    let plan = limiter.plan();
    let request_charges = plan.charges(&[("user", "alice")], Cost::ONE);
    limiter.block_if_used_up(&request_charges).await;
    assert!(check().await.is_allowed());
    limiter.block_if_used_up(&request_charges).await;
    clock.advance(second);
    assert_eq!(check().await.reason(), DecisionReason::Blocked);
}

#[tokio::test]
async fn too_many_failed_attempts_block_the_caller() {
    let echo = Echo::start().await;
    let policy = "[{ name: logins, key: [ip], limits: [2/second], algorithm: sliding-log, \
                  block_for: 1h, denied: { status: 403 }, cost: { response_status: [401] } }]";
    let front = front(echo.address, policy).await;
    for status in [401, 200, 200, 200, 401] {
        assert_eq!(front.get(&format!("/login?status={status}")).await.status, status);
    }
    let locked_out = front.get("/login?status=200").await;
    assert_eq!(locked_out.status, 403);
    assert!(locked_out.header("retry-after").unwrap().parse::<u64>().unwrap() > 3_500);
}

#[tokio::test]
async fn the_service_says_what_a_request_has_cost() {
    let echo = Echo::start().await;
    let policy = "[{ name: tokens, key: [ip], limits: [100/minute], algorithm: sliding-log, \
                  cost: { response_header: x-tokens, default: 10 } }]";
    let front = front(echo.address, policy).await;
    let left = async |front: &Front| {
        let reply = front.get("/?x-tokens=0").await;
        let field = reply.header("ratelimit").unwrap().to_owned();
        field.split(";r=").nth(1).unwrap().split(';').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(left(&front).await, 100, "nothing costs nothing");
    front.get("/?x-tokens=30").await;
    assert_eq!(left(&front).await, 70);
    front.get("/").await;
    assert_eq!(left(&front).await, 60, "the default");
    // The cost exceeds the quota: all that is left is taken, and the next request is denied.
    assert_eq!(front.get("/?x-tokens=1000").await.status, 200);
    assert_eq!(front.get("/").await.status, 429);
}

#[tokio::test]
async fn a_charge_after_the_response_is_not_counted_as_a_decision() {
    let echo = Echo::start().await;
    let policy = "[{ name: tokens, key: [ip], limits: [100/minute], algorithm: sliding-log, \
                  cost: { response_header: x-tokens, default: 10 } }]";
    let front = front(echo.address, policy).await;
    for tokens in [30, 20, 1000] {
        assert_eq!(front.get(&format!("/?x-tokens={tokens}")).await.status, 200);
    }
    let page = front.app.metrics_page().await;
    for (outcome, count) in [("allowed", 3), ("denied", 0)] {
        let labels = format!(r#"policy="tokens",outcome="{outcome}",source="store""#);
        let sample = format!("tidegate_decisions_total{{{labels}}} {count}");
        assert!(page.lines().any(|line| line == sample), "{sample}\n{page}");
    }
}

#[tokio::test]
async fn a_cost_in_a_header_is_a_number() {
    let echo = Echo::start().await;
    let policy = "[{ name: p, key: [ip], limits: [9/minute], cost: { attribute: 'header:x-n' } }]";
    let front = front(echo.address, policy).await;
    let with = |cost: &str| request("GET", "/", &format!("x-n: {cost}\r\n"));
    assert_eq!(front.ask(&with("3")).await.status, 200);
    let reply = front.ask(&with("all")).await;
    assert_eq!(reply.status, 400);
    let detail = r#"header:x-n is \"all\": expected a whole number from 0 to 1000000000000000"#;
    assert!(reply.text().contains(detail), "{}", reply.text());
    assert_eq!(echo.requests(), 1);
}

#[tokio::test]
async fn what_fails_costs_nothing_where_the_response_would_have_said_it() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let policy = "[{ name: p, key: [ip], limits: [1/minute], cost: { response_status: 401 } }]";
    let front = front(gone, policy).await;
    for _ in 0..3 {
        assert_eq!(front.get("/").await.status, 502);
    }
}

#[tokio::test]
async fn a_policy_that_is_only_watched_gives_back_nothing_that_it_did_not_take() {
    let echo = Echo::start().await;
    let policy = "[{ name: watched, mode: shadow, key: [ip], limits: [1/minute], \
                  cost: { response_status: 401 } }]";
    let front = front(echo.address, policy).await;
    // The first request pays; the second would have been denied.
    for status in [401, 200, 401] {
        assert_eq!(front.get(&format!("/login?status={status}")).await.status, status);
    }
    assert_eq!(front.decisions("watched", "shadow_denied").await, 2);
}

/// A store that fails every decision, so that nothing is ever taken from it.
struct Lost {
    is_available: bool,
    refunds: Arc<AtomicUsize>,
}

impl Store for Lost {
    fn settle<'a>(
        &'a self,
        _: &'a [Charge<'a>],
        _: Option<Span>,
        _: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(ready(Err(StoreError::new(StoreErrorKind::Lost, "cut"))))
    }

    async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        if !self.is_available {
            return Err(StoreError::new(StoreErrorKind::Lost, "cut"));
        }
        self.refunds.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn health(&self) -> StoreHealth {
        StoreHealth { is_available: self.is_available, round_trip: None }
    }
}

#[tokio::test]
async fn a_store_gives_back_nothing_that_another_took_in_its_place() {
    let echo = Echo::start().await;
    for on_store_error in ["local", "open"] {
        let policy = format!(
            "[{{ name: p, key: [ip], limits: [9/minute], cost: {{ response_status: 401 }}, \
             on_store_error: {on_store_error} }}]"
        );
        let refunds = Arc::new(AtomicUsize::new(0));
        // The store is back when the response arrives.
        let store = Lost { is_available: true, refunds: Arc::clone(&refunds) };
        let text = with(echo.address, "", &policy);
        let front = Front::on(&text, store, ListenerConfig::default()).await;
        assert_eq!(front.get("/").await.status, 200);
        assert_eq!(refunds.load(Ordering::SeqCst), 0, "{on_store_error}");
    }
}

#[tokio::test]
async fn only_failed_attempts_count_while_the_store_is_away() {
    let echo = Echo::start().await;
    let policy = "[{ name: p, key: [ip], limits: [1/hour], cost: { response_status: 401 } }]";
    let store = Lost { is_available: false, refunds: Arc::default() };
    let front = Front::on(&with(echo.address, "", policy), store, ListenerConfig::default()).await;
    for _ in 0..3 {
        assert_eq!(front.get("/").await.status, 200);
    }
    assert_eq!(front.get("/?status=401").await.status, 401);
    assert_eq!(front.get("/").await.status, 429);
}
