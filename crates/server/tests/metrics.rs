//! `GET /metrics`: what is on the page, and what is not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::future::ready;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use support::Server;
use tidegate::config::PolicySource;
use tidegate::{
    Charge, ChargeIntent, Cost, MemoryStore, Promise, SettleResult, Span, Store, StoreError,
    StoreErrorKind, StoreHealth, StoreProfile, Verdicts,
};
use tidegate_http::RateLimitAnswer;
use tidegate_server::App;

fn app<S: Store>(text: &str, store: S) -> Arc<App<S>> {
    let source = PolicySource::new("limits.yaml", text).unwrap();
    Arc::new(App::load(&source, store).unwrap())
}

/// Checks a user, and returns whether the request is allowed.
async fn ask<S: Store>(app: &App<S>, user: &str, cost: u64) -> bool {
    let plan = app.limiter().plan();
    let request_charges = plan.charges(&[("user", user)], Cost::new(cost).unwrap());
    app.decide(&request_charges, ChargeIntent::Take).await.is_allowed()
}

/// The value of a sample, by its name and labels.
fn value(page: &str, sample: &str) -> Option<u64> {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

fn decisions(page: &str, policy: &str, outcome: &str, source: &str) -> Option<u64> {
    let labels = format!(r#"policy="{policy}",outcome="{outcome}",source="{source}""#);
    value(page, &format!("tidegate_decisions_total{{{labels}}}"))
}

const THREE: &str = "policies:
- { name: a, key: [user], limits: [2/hour, 100/day] }
- { name: b, key: [user], limits: [3/hour], mode: shadow }
- { name: other, match: { path: /x }, key: [user], limits: [7/hour] }
";

#[tokio::test]
async fn each_policy_counts_what_it_says_itself() {
    let app = app(THREE, MemoryStore::new());
    for _ in 0..5 {
        ask(&app, "alice", 1).await;
    }
    ask(&app, "alice", 0).await;
    let nobody = app.limiter().plan();
    assert!(
        app.decide(&nobody.charges(&[("x", "y")], Cost::ONE), ChargeIntent::Take)
            .await
            .is_allowed()
    );
    let page = app.metrics_page().await;
    assert_eq!(decisions(&page, "a", "allowed", "store"), Some(2));
    assert_eq!(decisions(&page, "a", "denied", "store"), Some(3));
    assert_eq!(decisions(&page, "a", "peeked", "store"), Some(1));
    // Two are counted here as well; a request that another policy denies is not charged.
    assert_eq!(decisions(&page, "b", "allowed", "store"), Some(5));
    assert_eq!(decisions(&page, "other", "allowed", "store"), Some(0));
    assert_eq!(decisions(&page, "other", "peeked", "store"), None);
    assert_eq!(value(&page, "tidegate_unmatched_total"), Some(1));
    assert_eq!(value(&page, r#"tidegate_policy_limit{policy="a",limit="2/hour"}"#), Some(2));
    let info = r#"tidegate_policy_info{policy="b",mode="shadow",on_store_error="local"}"#;
    assert_eq!(value(&page, info), Some(1));
    assert_eq!(value(&page, "tidegate_keys"), Some(3));
    assert!(value(&page, "tidegate_max_keys") > Some(1_000));
    assert!(value(&page, "tidegate_store_memory_bytes") > Some(0));
    assert!(value(&page, "tidegate_store_max_memory_bytes") > Some(1 << 20));
    assert_eq!(value(&page, r#"tidegate_overflowed_total{policy="a"}"#), Some(0));
    assert_eq!(value(&page, "tidegate_store_breaker_open"), Some(0));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(value(&page, &format!("tidegate_build_info{{version=\"{version}\"}}")), Some(1));
    assert!(value(&page, "process_resident_memory_bytes").is_none_or(|bytes| bytes > 1 << 20));
}

#[tokio::test]
async fn each_limit_is_there_once() {
    let limits = "[3/day, 3/calendar-day, { quota: 3, per: 1d, algorithm: fixed-window }]";
    let text = format!("policies: [{{ name: a, key: [user], limits: {limits} }}]");
    let page = app(&text, MemoryStore::new()).metrics_page().await;
    for limit in ["3/day sliding-window", "3/calendar-day", "3/day fixed-window"] {
        let sample = format!(r#"tidegate_policy_limit{{policy="a",limit="{limit}"}}"#);
        assert_eq!(value(&page, &sample), Some(3), "{limit}");
    }
    let limits = page.lines().filter(|line| line.starts_with("tidegate_policy_limit{"));
    assert_eq!(limits.count(), 3);
}

#[tokio::test]
async fn a_shadow_that_would_deny_says_so() {
    let app = app(&THREE.replace("2/hour", "1000/hour"), MemoryStore::new());
    for _ in 0..5 {
        assert!(ask(&app, "alice", 1).await);
    }
    let page = app.metrics_page().await;
    assert_eq!(decisions(&page, "b", "shadow_denied", "store"), Some(2));
    assert_eq!(decisions(&page, "b", "allowed", "store"), Some(3));
}

#[tokio::test]
async fn a_reload_keeps_the_counts_of_policies_that_stay() {
    let app = app(THREE, MemoryStore::new());
    ask(&app, "alice", 1).await;
    let renamed = THREE.replace("name: b", "name: c");
    app.reload(&PolicySource::new("limits.yaml", renamed).unwrap()).unwrap();
    ask(&app, "bob", 1).await;
    let page = app.metrics_page().await;
    assert_eq!(decisions(&page, "a", "allowed", "store"), Some(2));
    assert_eq!(decisions(&page, "b", "allowed", "store"), None);
    assert_eq!(decisions(&page, "c", "allowed", "store"), Some(1));
}

/// A remote store whose connection is cut.
#[derive(Debug)]
struct Away;

impl Store for Away {
    fn settle<'a>(
        &'a self,
        _: &'a [Charge<'a>],
        _: Option<Span>,
        _: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(ready(Err(StoreError::new(StoreErrorKind::Lost, "cut"))))
    }

    async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Lost, "cut"))
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Err(StoreError::new(StoreErrorKind::Lost, "cut"))
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile::remote([7; 16])
    }

    fn health(&self) -> StoreHealth {
        StoreHealth { is_available: false, round_trip: None }
    }
}

#[tokio::test]
async fn a_store_that_fails_is_counted_and_so_is_who_stands_in() {
    let text = "policies:
- { name: local, match: { kind: l }, key: [user], limits: [1/hour] }
- { name: open, match: { kind: o }, key: [user], limits: [1/hour], on_store_error: open }
- { name: closed, match: { kind: c }, key: [user], limits: [1/hour], on_store_error: closed }
";
    let app = app(text, Away);
    let plan = app.limiter().plan();
    for kind in ["l", "o", "c"] {
        for _ in 0..2 {
            let request_charges = plan.charges(&[("user", "alice"), ("kind", kind)], Cost::ONE);
            let _ = app.decide(&request_charges, ChargeIntent::Take).await;
        }
    }
    let page = app.metrics_page().await;
    assert_eq!(decisions(&page, "local", "allowed", "fallback"), Some(1));
    assert_eq!(decisions(&page, "local", "denied", "fallback"), Some(1));
    assert_eq!(decisions(&page, "open", "allowed", "fallback"), Some(2));
    assert_eq!(decisions(&page, "closed", "denied", "fallback"), Some(2));
    assert_eq!(value(&page, r#"tidegate_store_errors_total{kind="lost"}"#), Some(6));
    assert_eq!(value(&page, r#"tidegate_store_errors_total{kind="timeout"}"#), Some(0));
    assert_eq!(value(&page, "tidegate_store_breaker_open"), Some(1));
    assert_eq!(value(&page, "tidegate_keys"), None, "nobody knows");
}

/// While the store is unavailable, a policy that did not deny is neither named nor counted for it.
#[tokio::test]
async fn each_policy_answers_for_itself_while_the_store_is_away() {
    let text = "policies:
- { name: loc, key: [a], limits: [2/hour] }
- { name: opn, key: [b], limits: [1/hour], on_store_error: open }
- { name: cls, key: [c], limits: [9/hour], on_store_error: closed }
- { name: shd, key: [s], limits: [9/hour], on_store_error: closed, mode: shadow }
";
    let app = app(text, Away);
    let plan = app.limiter().plan();
    let ask = async |request: &[(&str, &str)]| {
        let request_charges = plan.charges(request, Cost::ONE);
        let decision = app.decide(&request_charges, ChargeIntent::Take).await;
        let answer = RateLimitAnswer::of_charges(&request_charges, &decision);
        let said: Vec<bool> = answer.each_limit().map(|said| said.verdict.allowed).collect();
        (answer.policy().unwrap_or_default().to_owned(), answer.violated().join(" "), said)
    };
    let all = [("a", "x"), ("b", "x"), ("c", "x"), ("s", "x")];
    assert_eq!(ask(&all).await, ("cls".to_owned(), "cls".to_owned(), vec![]));
    for _ in 0..2 {
        assert_eq!(ask(&all[..2]).await.2, [true, true]);
    }
    assert_eq!(ask(&all[..2]).await, ("loc".to_owned(), "loc".to_owned(), vec![false, true]));
    let page = app.metrics_page().await;
    for (policy, allowed, denied) in [("loc", 3, 1), ("opn", 4, 0), ("cls", 0, 1), ("shd", 1, 0)] {
        let counted = |outcome| decisions(&page, policy, outcome, "fallback").unwrap_or_default();
        assert_eq!((counted("allowed"), counted("denied")), (allowed, denied), "{policy}");
        assert_eq!(counted("shadow_denied"), 0, "{policy}");
    }
}

#[tokio::test]
async fn about_one_decision_in_sixteen_is_timed() {
    let app = app(THREE, MemoryStore::new());
    for _ in 0..16_000 {
        ask(&app, "alice", 1).await;
    }
    let page = app.metrics_page().await;
    let timed = value(&page, "tidegate_decision_seconds_count").unwrap();
    assert!((700..1_300).contains(&timed), "{timed}");
    assert_eq!(value(&page, r#"tidegate_decision_seconds_bucket{le="+Inf"}"#), Some(timed));
}

#[tokio::test]
async fn after_a_million_keys_the_page_is_as_long_as_before() {
    let store = MemoryStore::builder().max_keys(100_000).build();
    let app = app("policies: [{ name: a, key: [user], limits: [1/hour] }]", store);
    // All kinds of outcomes exist already.
    for cost in [1, 1, 0] {
        ask(&app, "alice", cost).await;
    }
    let lines = |page: &str| page.lines().map(str::to_owned).collect::<Vec<_>>();
    let names = |page: &str| -> Vec<String> {
        let name = |line: String| line.rsplit_once(' ').map_or(line.clone(), |it| it.0.to_owned());
        lines(page).into_iter().filter(|line| !line.starts_with('#')).map(name).collect()
    };
    let before = app.metrics_page().await;
    for number in 0..1_000_000_u32 {
        ask(&app, &number.to_string(), 1).await;
    }
    let after = app.metrics_page().await;
    assert_eq!(names(&before), names(&after));
    // Numbers have more digits.
    assert!(after.len() < before.len() + 500, "{} {}", before.len(), after.len());
    assert!(!after.contains("alice"));
}

#[tokio::test]
async fn who_comes_back_too_early_is_counted() {
    // With a real clock: the counter is about what clients do, not about what a limit decides.
    let app = app("policies: [{ name: a, key: [user], limits: [1/hour] }]", MemoryStore::new());
    let early = async || {
        let page = app.metrics_page().await;
        value(&page, r#"tidegate_early_returns_total{policy="a"}"#).unwrap()
    };
    for _ in 0..3 {
        ask(&app, "alice", 1).await;
    }
    assert_eq!(early().await, 0, "all at once: nobody was told yet");
    tokio::time::sleep(Span::from_millis(300).into()).await;
    ask(&app, "alice", 1).await;
    assert_eq!(early().await, 1);
    ask(&app, "bob", 1).await;
    assert_eq!(early().await, 1);
}

#[tokio::test]
async fn promtool_has_nothing_against_it() {
    let Some(promtool) = tidegate_testkit::peer("promtool") else { return };
    let server = Server::start().await;
    for _ in 0..12 {
        server.check(r#"{"policy": "demo", "key": "alice"}"#).await;
    }
    let reply = server.connect().await.get("/metrics").await;
    assert_eq!(reply.status, 200);
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(kind));
    assert_eq!(decisions(&reply.body, "demo", "denied", "store"), Some(2));
    let mut child = Command::new(promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(reply.body.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{}", reply.body);
}
