//! `POST /v1/check/batch`, as its clients see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::{Value, json};
use support::Server;

const PATH: &str = "/v1/check/batch";

async fn results(server: &Server, body: &str) -> Vec<Value> {
    let reply = server.connect().await.post(PATH, body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("ratelimit"), None);
    reply.json()["results"].as_array().unwrap().clone()
}

#[tokio::test]
async fn every_check_is_answered_as_if_it_came_alone() {
    let server = Server::start().await;
    let alone = server.check(r#"{"policy": "demo", "key": "carol", "cost": 4}"#).await.json();
    let body = r#"{"checks": [
        {"policy": "demo", "key": "alice", "cost": 4},
        {"attributes": {"key": "bob"}, "cost": 10},
        {"attributes": {"key": "bob"}},
        {"attributes": {"user": "bob"}},
        {"policy": "demo", "key": "alice", "cost": 0}]}"#;
    let results = results(&server, body).await;
    assert_eq!(results[0], alone);
    let of = |name: &str| results.iter().map(|one| one[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("allowed"), [true, true, false, true, true].map(Value::from));
    assert_eq!(of("remaining"), [json!(6), json!(0), json!(0), json!(null), json!(6)]);
    assert_eq!(results[2]["reason"], "limit_exceeded");
    assert_eq!(results[3]["reason"], "no_policy");
}

#[tokio::test]
async fn a_check_that_makes_no_sense_is_the_only_one_refused() {
    let server = Server::start().await;
    let body = r#"{"checks": [
        {"policy": "demo", "key": "alice"},
        {"policy": "none", "key": "alice"},
        7,
        {"policy": "demo", "key": "alice", "cost": -1},
        {"attributes": {"a": "1", "a": "2"}},
        {"policy": "demo", "key": "alice"},
        ["demo", "alice", null, 1]]}"#;
    let results = results(&server, body).await;
    assert_eq!((&results[0]["remaining"], &results[5]["remaining"]), (&json!(9), &json!(8)));
    let problem = |index: usize| {
        let one: &Value = &results[index];
        (one["status"].as_u64().unwrap(), one["member"].as_str().unwrap())
    };
    assert_eq!(problem(1), (404, "checks[1].policy"));
    assert_eq!(problem(2), (400, "checks[2]"));
    assert_eq!(problem(3), (400, "checks[3].cost"));
    assert_eq!(problem(4), (400, "checks[4].attributes.a"));
    assert_eq!(problem(6), (400, "checks[6]"));
    assert!(results[3]["detail"].as_str().unwrap().contains("expected a whole number"));
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let batch = |count: usize| {
        let one = r#"{"policy": "demo", "key": "alice", "cost": 0}"#;
        format!(r#"{{"checks": [{}]}}"#, vec![one; count].join(","))
    };
    assert_eq!(results(&server, &batch(256)).await.len(), 256);
    assert_eq!(results(&server, &batch(0)).await.len(), 0);
    let reply = client.post(PATH, &batch(257)).await;
    assert_eq!(reply.problem(400), "`checks` has 257 items: expected at most 256");
    for (body, member, said) in [
        ("[]", json!(null), "the body is []"),
        ("[[]]", json!(null), "the body is [[]]"),
        ("{}", json!("checks"), "`checks` is missing"),
        (r#"{"checks": null}"#, json!("checks"), "`checks` is null: expected a list"),
        (r#"{"checks": {}}"#, json!("checks"), "`checks` is {}: expected a list"),
        (r#"{"checks": [], "more": 1}"#, json!("more"), "`more` is unknown"),
        (r#"{"checks": [], "checks": []}"#, json!("checks"), "duplicate field"),
    ] {
        let reply = client.post(PATH, body).await;
        assert!(reply.problem(400).contains(said), "{body}: {reply:?}");
        assert_eq!(reply.json()["member"], member, "{body}");
    }
}
