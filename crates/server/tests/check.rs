//! `POST /v1/check`, as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::json;
use support::Server;
use tidegate::Span;

const DETAIL: &str = "policy demo allows 10/minute: try again in 1m6s";
const ALICE: &str = r#"{"policy": "demo", "key": "alice", "cost": 1}"#;

#[tokio::test]
async fn an_allowed_request_is_told_everything() {
    let server = Server::start().await;
    let reply = server.check(ALICE).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""demo";q=10;w=60"#));
    assert_eq!(reply.header("ratelimit"), Some(r#""demo";r=9;t=60"#));
    assert_eq!(reply.header("retry-after"), None);
    // A unit counts until it has faded completely, which is at the end of the next window.
    assert_eq!(
        reply.json(),
        json!({
            "allowed": true, "policy": "demo", "reason": "within_limit", "limit": 10,
            "remaining": 9, "retry_after_ms": null, "reset_after_ms": 120000, "source": "store",
            "limits": [{
                "policy": "demo", "algorithm": "sliding-window", "limit": 10, "window_ms": 60000,
                "allowed": true, "remaining": 9, "retry_after_ms": null, "reset_after_ms": 120000,
                "mode": "enforce",
            }],
        })
    );
}

#[tokio::test]
async fn the_eleventh_is_denied_until_it_was_told_to_come_back() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for remaining in (0..10).rev() {
        let reply = client.check(ALICE).await;
        assert_eq!((reply.status, &reply.json()["remaining"]), (200, &json!(remaining)));
    }
    let reply = client.check(ALICE).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""demo";q=10;w=60"#));

    let problem = reply.json();
    let kind = "https://iana.org/assignments/http-problem-types#quota-exceeded";
    assert_eq!((&problem["type"], &problem["status"]), (&json!(kind), &json!(429)));
    assert_eq!(problem["title"], "Too Many Requests");
    assert_eq!(problem["violated-policies"], json!(["demo"]));
    assert_eq!((&problem["allowed"], &problem["policy"]), (&json!(false), &json!("demo")));
    assert_eq!(
        (&problem["reason"], &problem["source"]),
        (&json!("limit_exceeded"), &json!("store"))
    );
    assert_eq!((&problem["limit"], &problem["remaining"]), (&json!(10), &json!(0)));
    assert_eq!(problem["limits"][0]["allowed"], false);
    assert_eq!(problem["limits"][0]["retry_after_ms"], problem["retry_after_ms"]);

    let wait = problem["retry_after_ms"].as_u64().unwrap();
    let secs = wait.div_ceil(1_000).to_string();
    assert_eq!(reply.header("retry-after"), Some(&secs[..]));
    assert_eq!(reply.header("ratelimit"), Some(&format!(r#""demo";r=0;t={secs}"#)[..]));
    assert_eq!((&secs[..], &problem["detail"]), ("66", &json!(DETAIL)));

    server.clock.advance(Span::from_millis(wait - 1));
    assert_eq!(client.check(ALICE).await.status, 429);
    server.clock.advance(Span::from_millis(1));
    assert_eq!(client.check(ALICE).await.status, 200);
}

#[tokio::test]
async fn a_wait_of_less_than_a_second_is_rounded_up() {
    let server = Server::start().await;
    let _ = server.check(r#"{"policy": "demo", "key": "alice", "cost": 10}"#).await;
    let wait = server.check(ALICE).await.json()["retry_after_ms"].as_u64().unwrap();
    server.clock.advance(Span::from_millis(wait - 1));
    let reply = server.check(ALICE).await;
    assert_eq!(reply.json()["retry_after_ms"], 1);
    assert_eq!(reply.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn keys_do_not_share_and_cost_is_one_unless_said() {
    let server = Server::start().await;
    let _ = server.check(r#"{"policy": "demo", "key": "alice", "cost": 10}"#).await;
    assert_eq!(server.check(ALICE).await.status, 429);
    let reply = server.check(r#"{"policy": "demo", "key": "bob"}"#).await;
    assert_eq!((reply.status, &reply.json()["remaining"]), (200, &json!(9)));
    let reply = server.check(r#"{"policy": "demo", "key": "böb \u0000 \"x\""}"#).await;
    assert_eq!((reply.status, &reply.json()["remaining"]), (200, &json!(9)));
}

#[tokio::test]
async fn a_cost_of_zero_takes_nothing() {
    let server = Server::start().await;
    let peek = r#"{"policy": "demo", "key": "alice", "cost": 0}"#;
    let _ = server.check(ALICE).await;
    for _ in 0..3 {
        let reply = server.check(peek).await;
        assert_eq!((reply.status, &reply.json()["remaining"]), (200, &json!(9)));
    }
}

#[tokio::test]
async fn a_cost_that_never_fits_gets_no_retry_after() {
    let server = Server::start().await;
    let reply = server.check(r#"{"policy": "demo", "key": "alice", "cost": 11}"#).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("retry-after"), None);
    assert_eq!(reply.header("ratelimit"), Some(r#""demo";r=10;t=0"#));
    let problem = reply.json();
    assert_eq!(problem["reason"], "cost_exceeds_limit");
    assert_eq!(problem["retry_after_ms"], json!(null));
    assert_eq!(problem["detail"], "the cost is above what policy demo ever allows: at most 10");
}

#[tokio::test]
async fn attributes_find_the_key() {
    let server = Server::start().await;
    let reply = server.check(r#"{"attributes": {"key": "alice", "path": "/x"}, "cost": 3}"#).await;
    assert_eq!((reply.status, &reply.json()["remaining"]), (200, &json!(7)));
    assert_eq!(server.check(ALICE).await.json()["remaining"], 6);
}

#[tokio::test]
async fn attributes_that_no_policy_wants_pass() {
    let server = Server::start().await;
    for body in [r#"{"attributes": {"user": "42"}}"#, r#"{"attributes": {"key": null}}"#] {
        let reply = server.check(body).await;
        assert_eq!(reply.status, 200);
        assert_eq!((reply.header("ratelimit"), reply.header("ratelimit-policy")), (None, None));
        assert_eq!(
            reply.json(),
            json!({
                "allowed": true, "policy": null, "reason": "no_policy", "limit": null,
                "remaining": null, "retry_after_ms": null, "reset_after_ms": null,
                "source": "none", "limits": [],
            })
        );
    }
}

#[tokio::test]
async fn a_policy_that_only_watches_is_named() {
    let text = "policies: [{ name: shadowed, key: [user], limits: [1/day], mode: shadow }]";
    let server = Server::of(text).await;
    for is_within in [true, false] {
        let reply = server.check(r#"{"policy": "shadowed", "key": "a"}"#).await;
        let answer = reply.json();
        assert_eq!((reply.status, reply.header("ratelimit")), (200, None));
        assert_eq!((&answer["allowed"], &answer["policy"]), (&json!(true), &json!("shadowed")));
        assert_eq!((&answer["reason"], &answer["limit"]), (&json!("within_limit"), &json!(null)));
        assert_eq!(answer["limits"][0]["allowed"], is_within);
    }
}

/// A policy whose key is not one attribute can be checked on its own, too.
#[tokio::test]
async fn one_policy_is_asked_by_attributes() {
    let server = Server::of(
        "policies: [{ name: pair, key: [a, b], limits: [1/hour] }, { name: all, key: [], limits: [2/hour] }]",
    )
    .await;
    let pair = r#"{"policy": "pair", "attributes": {"a": "1", "b": "2"}}"#;
    let reply = server.check(pair).await.json();
    assert_eq!((&reply["policy"], &reply["limits"][1]), (&json!("pair"), &json!(null)));
    assert_eq!(server.check(pair).await.status, 429);
    let all = r#"{"policy": "all", "attributes": {}}"#;
    assert_eq!(server.check(all).await.json()["remaining"], json!(1));
}
