//! Paths and methods: the endpoints besides checks, and the answers for unknown ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::{Value, json};
use support::Server;

#[tokio::test]
async fn other_methods_are_told_which_would_do() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for (path, allow) in [
        ("/v1/check", "OPTIONS, POST"),
        ("/v1/check/batch", "OPTIONS, POST"),
        ("/v1/refund", "OPTIONS, POST"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/readyz", "GET, HEAD, OPTIONS"),
        ("/metrics", "GET, HEAD, OPTIONS"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
        ("/docs", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
    ] {
        let reply = client.ask("DELETE", path, "").await;
        let (others, last) = allow.rsplit_once(", ").unwrap();
        let detail = format!("DELETE is not allowed on {path}: expected {others} or {last}");
        assert_eq!(reply.problem(405), detail);
        assert_eq!(reply.header("allow"), Some(allow));
        let reply = client.ask("OPTIONS", path, "").await;
        assert_eq!((reply.status, reply.header("allow")), (204, Some(allow)));
    }
}

#[tokio::test]
async fn a_path_that_is_none_is_told_which_there_are() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for path in ["/v1", "/v1/checks", "/v1/authzx", "/check?userId=1", "/docs/", "//"] {
        let detail = client.get(path).await.problem(404);
        assert!(detail.contains("expected /v1/check, /v1/check/batch, /v1/refund"), "{detail}");
    }
    // RLaaS files only: see `reload.rs`.
    client.ask("OPTIONS", "/nothing", "").await.problem(404);
}

#[tokio::test]
async fn a_head_says_what_a_get_says_but_for_the_body() {
    let server = Server::start().await;
    for path in ["/healthz", "/docs", "/openapi.json"] {
        let get = server.connect().await.get(path).await;
        let mut client = server.connect().await;
        client.send(&format!("HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        assert_eq!(client.status().await, 200);
        assert_eq!(client.header("content-length").await, get.body.len().to_string());
    }
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let reply = client.get("/").await;
    assert_eq!((reply.status, reply.header("location")), (302, Some("/docs")));
    let page = client.get("/docs").await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    let quoted = |text: &str| text.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let values: Vec<String> = quoted(&page.body);
    // Relative to `/docs`, because the same page is part of the documentation's site.
    let is_file = |value: &&String| [".css", ".js", ".json"].iter().any(|end| value.ends_with(end));
    let ours: Vec<_> = values.iter().filter(is_file).collect();
    assert!(ours.len() >= 3, "{values:?}");
    for path in ours {
        assert_eq!(client.get(&format!("/{path}")).await.status, 200, "{path}");
    }
    let script = client.get("/docs/page.js").await.body;
    assert!(script.contains("from './curl.js'"), "{script}");
    let example = client.ask("GET", "/docs/example.json", "").await;
    let expected = r#"{"check": {"policy": "demo", "key": "alice"}, "counted_by": ["key"]}"#;
    assert_eq!((example.status, example.body.as_str()), (200, expected));
    for path in ["/docs", "/docs/page.js", "/docs/curl.js", "/docs/page.css"] {
        let body = client.get(path).await.body;
        assert!(!body.contains("//cdn") && !body.contains("https:"), "{path}");
    }
}

#[tokio::test]
async fn the_document_describes_what_is_answered() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let document = client.get("/openapi.json").await;
    assert_eq!(document.header("content-type"), Some("application/json"));
    let document = document.json();
    let members = |name: &str| -> Vec<String> {
        let schema = &document["components"]["schemas"][name]["properties"];
        schema.as_object().unwrap().keys().cloned().collect()
    };
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let allowed = client.check(r#"{"policy": "demo", "key": "a", "cost": 10}"#).await.json();
    assert_eq!(keys(&allowed), members("CheckResponse"));
    assert_eq!(keys(&allowed["limits"][0]), members("LimitStatus"));
    let denied = client.check(r#"{"policy": "demo", "key": "a"}"#).await.json();
    assert_eq!(keys(&denied), members("QuotaExceededProblem"));
    let refused = client.check(r#"{"policy": "none", "key": "a"}"#).await.json();
    assert_eq!(keys(&refused), members("RefusedProblem"));
    // Every path in the document exists.
    for path in keys(&document["paths"]) {
        assert_ne!(client.ask("OPTIONS", &path, "").await.status, 404, "{path}");
    }
}

/// The names in the document are the names in answers.
#[test]
fn reasons_and_sources_are_those_of_decisions() {
    use tidegate::{DecisionReason, DecisionSource};
    let document: Value = serde_json::from_str(&tidegate_wire::openapi()).unwrap();
    let answer = &document["components"]["schemas"]["CheckResponse"]["properties"];
    let reasons = [
        DecisionReason::WithinLimit,
        DecisionReason::LimitExceeded,
        DecisionReason::CostExceedsLimit,
        DecisionReason::Blocked,
        DecisionReason::NoPolicy,
        DecisionReason::StoreUnavailable,
    ];
    assert_eq!(answer["reason"]["enum"], json!(reasons.map(DecisionReason::name)));
    let sources: Vec<_> = DecisionSource::ALL.iter().map(|source| source.name()).collect();
    assert_eq!(answer["source"]["enum"], json!(sources));
}
