//! Which requests are admitted, and the responses to the denied ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::json;
use support::echo::Echo;
use support::{Front, front, request, with};
use tidegate::Span;

#[tokio::test]
async fn a_denied_request_never_reaches_the_service() {
    let echo = Echo::start().await;
    let front = front(echo.address, "[{ name: two, key: [ip], limits: [2/minute] }]").await;
    for left in ["1", "0"] {
        let reply = front.get("/").await;
        assert_eq!(reply.status, 200);
        assert!(reply.header("ratelimit").unwrap().starts_with(&format!("\"two\";r={left};t=")));
        assert_eq!(reply.header("ratelimit-policy"), Some("\"two\";q=2;w=60"));
    }
    let reply = front.get("/").await;
    assert!(reply.problem(429).contains("policy two"));
    assert_eq!(reply.json()["violated-policies"], json!(["two"]));
    assert_eq!(reply.json()["type"].as_str().unwrap().rsplit('#').next(), Some("quota-exceeded"));
    assert!(reply.header("retry-after").is_some() && reply.header("ratelimit").is_some());
    assert_eq!(echo.requests(), 2);
    front.clock.advance(Span::from_secs(120));
    assert_eq!(front.get("/").await.status, 200);
}

#[tokio::test]
async fn older_fields_come_where_they_are_asked_for() {
    let echo = Echo::start().await;
    let plain = front(echo.address, "[{ name: p, key: [ip], limits: [1/minute] }]").await;
    assert_eq!(plain.get("/").await.header("x-ratelimit-limit"), None);
    let own = ", denied: { body: later, headers: { x-ratelimit-limit: mine } }";
    for (denied, denied_limit) in [("", "1"), (own, "mine")] {
        let policies = format!("[{{ name: p, key: [ip], limits: [1/minute]{denied} }}]");
        let text = with(echo.address, "http: { legacy_headers: seconds }", &policies);
        let front = Front::start(&text).await;
        for (status, limit) in [(200, "1"), (429, denied_limit)] {
            let reply = front.get("/").await;
            assert_eq!((reply.status, reply.header("x-ratelimit-limit")), (status, Some(limit)));
            assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));
            assert_eq!(reply.header("x-ratelimit-reset"), Some("120"));
        }
        let call = request("POST", "/", "content-type: application/grpc\r\n");
        assert_eq!(front.ask(&call).await.header("x-ratelimit-reset"), Some("120"));
    }
}

#[tokio::test]
async fn every_spelling_of_a_path_is_one() {
    let echo = Echo::start().await;
    let policy = "[{ name: login, match: { path: /login, method: POST, host: a }, key: [], limits: [4/minute] }]";
    let front = front(echo.address, policy).await;
    for target in ["/login", "//login", "/x/../login?a=b", "/%6cogin/"] {
        assert_eq!(front.ask(&request("POST", target, "")).await.status, 200, "{target}");
    }
    for target in ["/login", "/./login/", "/%6C%6fgin", "http://A/login"] {
        let text = request("POST", target, "").replace("host: a", "host: A");
        assert_eq!(front.ask(&text).await.status, 429, "{target}");
    }
    assert_eq!(front.get("/login").await.status, 200, "another method");
}

#[tokio::test]
async fn callers_are_told_apart_by_fields_queries_cookies_keys_and_routes() {
    let echo = Echo::start().await;
    for (key, one, other) in [
        ("header:x-user", "x-user: 1\r\n", "x-user: 2\r\n"),
        ("cookie:sid", "cookie: a=b; sid=1\r\n", "cookie: sid=2\r\n"),
        ("api_key", "x-api-key: 1\r\n", "x-api-key: 2\r\n"),
    ] {
        let policy = format!("[{{ name: p, key: ['{key}'], limits: [1/minute] }}]");
        let front = front(echo.address, &policy).await;
        assert_eq!(front.ask(&request("GET", "/", one)).await.status, 200, "{key}");
        assert_eq!(front.ask(&request("GET", "/", one)).await.status, 429, "{key}");
        assert_eq!(front.ask(&request("GET", "/", other)).await.status, 200, "{key}");
        assert_eq!(front.ask(&request("GET", "/", "")).await.status, 200, "{key}: none at all");
    }
    let front =
        self::front(echo.address, "[{ name: p, key: ['query:q'], limits: [1/minute] }]").await;
    assert_eq!(front.get("/?q=a%20b").await.status, 200);
    assert_eq!(front.get("/other?x=1&q=a+b").await.status, 429);
    assert!(front.get("/?q=1&q=2").await.problem(400).contains("query:q occurs twice"));
    let routes = "  routes:\n  - { name: a, match: { path: /a/** }, upstream: up }\n  - { name: b, upstream: up }";
    let text = with(echo.address, routes, "[{ name: p, key: [route], limits: [1/minute] }]");
    let front = Front::start(&text).await;
    assert_eq!(front.get("/a/1").await.status, 200);
    assert_eq!(front.get("/a/2").await.status, 429);
    assert_eq!(front.get("/b").await.status, 200);
}

#[tokio::test]
async fn addresses_cannot_be_made_up() {
    let echo = Echo::start().await;
    let front = front(echo.address, "[{ name: p, key: [ip], limits: [1/minute] }]").await;
    let from = |ip: &str| request("GET", "/", &format!("x-forwarded-for: {ip}\r\n"));
    assert_eq!(front.ask(&from("1.1.1.1")).await.status, 200);
    assert_eq!(front.ask(&from("2.2.2.2")).await.status, 429);
    let text = with(echo.address, "", "[{ name: p, key: [ip], limits: [1/minute] }]");
    let front = Front::start(&format!("trusted_proxies: 127.0.0.0/8\n{text}")).await;
    assert_eq!(front.ask(&from("1.1.1.1")).await.status, 200);
    assert_eq!(front.ask(&from("6.6.6.6, 1.1.1.1")).await.status, 429);
    assert_eq!(front.ask(&from("2.2.2.2")).await.status, 200);
}

#[tokio::test]
async fn a_policy_can_have_its_own_denial_message() {
    let echo = Echo::start().await;
    let policy = "[{ name: p, key: [ip], limits: [1/minute], denied: { status: 503, \
                  body: '<h1>Later</h1>', content_type: text/html, headers: { x-docs: /limits } } }]";
    let front = front(echo.address, policy).await;
    assert_eq!(front.get("/").await.status, 200);
    let reply = front.get("/").await;
    assert_eq!((reply.status, reply.text().as_str()), (503, "<h1>Later</h1>"));
    assert_eq!(reply.header("content-type"), Some("text/html"));
    assert_eq!(reply.header("x-docs"), Some("/limits"));
    assert!(reply.header("retry-after").is_some() && reply.header("ratelimit").is_some());
    let mut client = front.connect().await;
    client.send(&request("HEAD", "/", "")).await;
    assert_eq!(client.reply_to("HEAD").await.status, 503);
}

#[tokio::test]
async fn a_request_that_no_policy_applies_to_passes_without_fields() {
    let echo = Echo::start().await;
    let front = front(echo.address, "[{ name: p, key: [user], limits: [1/minute] }]").await;
    let reply = front.get("/").await;
    assert_eq!((reply.status, reply.header("ratelimit")), (200, None));
}
