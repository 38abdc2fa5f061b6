//! Everything that is not a check: refused with the member, the value and what was expected.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use serde_json::json;
use support::Server;

#[tokio::test]
async fn a_body_that_makes_no_sense_is_refused_with_the_reason() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let a_cost = "expected a whole number from 0 to 1000000000000000";
    for (body, member, said) in [
        ("", None, vec!["not JSON", "expected {"]),
        ("{", None, vec!["not JSON", "line 1 column 1"]),
        ("[1]", None, vec!["the body is [1]", "expected {"]),
        (r#"["demo", "a", null, 1]"#, None, vec![r#"the body is ["demo","a",null,1]"#]),
        ("null", None, vec!["the body is null", "expected {"]),
        ("{}", None, vec!["expected `policy` and `key`, or `attributes`"]),
        (r#"{"cost": 1}"#, None, vec!["expected `policy` and `key`, or `attributes`"]),
        (r#"{"policy": "demo"}"#, Some("key"), vec!["`key` is missing", "expected a string"]),
        (r#"{"key": "a"}"#, Some("policy"), vec!["`policy` is missing", "expected a string"]),
        (r#"{"policy": "demo", "key": 7}"#, Some("key"), vec!["`key` is 7: expected a string"]),
        (r#"{"policy": ["demo"], "key": "a"}"#, Some("policy"), vec![r#"`policy` is ["demo"]"#]),
        (r#"{"policy": "demo", "key": "a", "cots": 1}"#, Some("cots"), vec!["unknown", "cost"]),
        (r#"{"policy": "demo", "key": "a", "cost": -1}"#, Some("cost"), vec!["is -1", a_cost]),
        (r#"{"policy": "demo", "key": "a", "cost": 1.5}"#, Some("cost"), vec!["is 1.5", a_cost]),
        (r#"{"policy": "demo", "key": "a", "cost": "1"}"#, Some("cost"), vec![r#"is "1""#, a_cost]),
        (
            r#"{"policy": "demo", "key": "a", "cost": 1000000000000001}"#,
            Some("cost"),
            vec!["is 1000000000000001", a_cost],
        ),
        (r#"{"policy": "demo", "key": "a", "cost": 1e30}"#, Some("cost"), vec!["1e+30", a_cost]),
        (
            r#"{"policy": "demo", "key": "a", "attributes": {}}"#,
            Some("attributes"),
            vec!["`attributes` and `key` are both present"],
        ),
        (
            r#"{"policy": "demo", "attributes": {"user": "a"}}"#,
            Some("attributes.key"),
            vec![r#"`attributes` has no "key": policy "demo" counts by it"#],
        ),
        (r#"{"attributes": "a"}"#, Some("attributes"), vec![r#"is "a": expected an object"#]),
        (
            r#"{"attributes": {"key": 7}}"#,
            Some("attributes.key"),
            vec!["`attributes.key` is 7: expected a string"],
        ),
        (
            r#"{"attributes": {"user": "a", "key": "b", "user": "c"}}"#,
            Some("attributes.user"),
            vec![r#""user" in `attributes` occurs twice: expected one value"#],
        ),
        (r#"{"attributes": {"": "a"}}"#, Some("attributes."), vec![r#""" in `attributes`"#]),
        (
            r#"{"attributes": {"a\u0000b": "a"}}"#,
            Some("attributes.a\0b"),
            vec![r#""a\0b" in `attributes` is not a valid name: expected text without control"#],
        ),
        (r#"{"policy": "demo", "key": "a", "key": "b"}"#, Some("key"), vec!["duplicate field"]),
        (r#"{"policy": "demo", "key": "\ud800"}"#, None, vec!["not JSON", "hex escape"]),
        (r#"{"policy": "demo", "key": "a", "cost": 1e999}"#, None, vec!["number out of range"]),
    ] {
        let reply = client.check(body).await;
        let detail = reply.problem(400);
        assert!(said.iter().all(|part| detail.contains(part)), "{body}: {detail}");
        assert_eq!(reply.json()["member"], json!(member), "{body}");
    }
    assert_eq!(client.check(r#"{"policy": "demo", "key": "a"}"#).await.json()["remaining"], 9);
}

#[tokio::test]
async fn bytes_that_are_not_text_are_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client
        .send_bytes(b"POST /v1/check HTTP/1.1\r\ncontent-length: 9\r\n\r\n{\"k\":\"\xff\"}")
        .await;
    assert!(client.reply().await.problem(400).contains("not JSON"));
}

#[tokio::test]
async fn more_attributes_than_anybody_has_are_refused() {
    let server = Server::start().await;
    let body = |count: usize| {
        let pairs: Vec<String> = (0..count).map(|number| format!(r#""a{number}": "x""#)).collect();
        format!(r#"{{"attributes": {{{}}}}}"#, pairs.join(","))
    };
    assert_eq!(server.check(&body(256)).await.status, 200);
    let reply = server.check(&body(257)).await;
    assert_eq!(reply.problem(400), "`attributes` has 257 members: expected at most 256");
}

#[tokio::test]
async fn the_kind_of_a_body_does_not_matter() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let body = r#"{"policy": "demo", "key": "a"}"#;
    for kind in ["application/json", "application/x-www-form-urlencoded", "text/plain", "nonsense"]
    {
        let length = body.len();
        let head = format!("POST /v1/check HTTP/1.1\r\ncontent-type: {kind}\r\n");
        client.send(&format!("{head}content-length: {length}\r\n\r\n{body}")).await;
        assert_eq!(client.reply().await.status, 200, "{kind}");
    }
}

#[tokio::test]
async fn a_long_key_is_refused_and_a_longest_one_is_not() {
    let server = Server::start().await;
    let [longest, longer] = [4_096, 4_097].map(|length| "k".repeat(length));
    let reply = server.check(&format!(r#"{{"policy": "demo", "key": "{longest}"}}"#)).await;
    assert_eq!(reply.status, 200);
    let reply = server.check(&format!(r#"{{"policy": "demo", "key": "{longer}"}}"#)).await;
    assert_eq!(reply.problem(400), "`key` has 4097 bytes: expected at most 4096");
    let reply = server.check(&format!(r#"{{"attributes": {{"key": "{longer}"}}}}"#)).await;
    assert_eq!(reply.problem(400), "`attributes.key` has 4097 bytes: expected at most 4096");
    assert_eq!(reply.json()["member"], "attributes.key");
}

#[tokio::test]
async fn an_unknown_policy_is_answered_with_the_known_ones() {
    let server = Server::start().await;
    let reply = server.check(r#"{"policy": "dem\"o", "key": "a"}"#).await;
    assert_eq!(reply.problem(404), r#"no policy is named "dem\"o": expected demo"#);
    assert_eq!(reply.json()["policies"], json!(["demo"]));
    assert_eq!(reply.json()["member"], "policy");
}

#[tokio::test]
async fn a_body_past_the_bound_is_refused_however_it_comes() {
    let server = Server::start().await;
    let large = "x".repeat(70_000);
    let reply = server.check(&large).await;
    assert_eq!(reply.problem(413), "the body is too large: expected at most 65536 bytes");

    let mut client = server.connect().await;
    let head = "POST /v1/check HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(&format!("{head}{:x}\r\n{large}\r\n0\r\n\r\n", large.len())).await;
    client.reply().await.problem(413);
    // The body was read completely, so the connection can still be used.
    client.check(r#"{"policy": "demo"}"#).await.problem(400);
}

#[tokio::test]
async fn a_body_in_pieces_is_put_together() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    client.send("POST /v1/check HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for piece in [r#"{"policy""#, r#": "demo", "#, r#""key": "a"}"#] {
        client.send(&format!("{:x}\r\n{piece}\r\n", piece.len())).await;
        assert!(client.is_silent().await);
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(client.reply().await.status, 200);
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let server = Server::start().await;
    for bytes in ["\0\0\0\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\n:\r\n\r\n"] {
        let mut client = server.connect().await;
        client.send(bytes).await;
        assert_eq!(client.reply().await.status, 400);
        assert!(client.is_closed().await);
    }
}

#[tokio::test]
async fn an_oversized_head_is_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    let large = "x".repeat(20_000);
    client.send(&format!("GET /healthz HTTP/1.1\r\nlarge: {large}\r\n\r\n")).await;
    assert_eq!(client.reply().await.status, 431);
}

#[tokio::test]
async fn health_is_told_and_other_paths_are_refused() {
    let server = Server::start().await;
    let mut client = server.connect().await;
    for path in ["/healthz", "/readyz"] {
        let reply = client.get(path).await;
        assert_eq!((reply.status, &reply.body[..]), (200, "ok\n"));
    }
    assert!(client.get("/v2/check?x=1").await.problem(404).contains(r#""/v2/check""#));
}

#[tokio::test]
async fn a_cost_that_an_attribute_gives_is_refused_unless_it_is_a_number() {
    let policy = "policies: [{ name: t, key: [user], limits: [9/minute], \
                  cost: { attribute: 'header:x-tokens' } }]";
    let server = Server::of(policy).await;
    let mut client = server.connect().await;
    let said =
        |value: &str| format!("is {value:?}: expected a whole number from 0 to 1000000000000000");
    for value in ["many", "-1", "", "1.5", "1000000000000001"] {
        let check = json!({ "attributes": { "user": "a", "header:x-tokens": value } });
        let reply = client.check(&check.to_string()).await;
        assert_eq!(reply.status, 400, "{value}");
        assert_eq!(reply.json()["member"], "attributes.header:x-tokens");
        let detail = format!("`attributes.header:x-tokens` {}", said(value));
        assert_eq!(reply.json()["detail"], detail);
        // The others in a batch are decided.
        let batch = json!({ "checks": [check, { "attributes": { "user": "a" }, "cost": 0 }] });
        let reply = client.post("/v1/check/batch", &batch.to_string()).await.json();
        assert_eq!(reply["results"][0]["member"], "checks[0].attributes.header:x-tokens");
        assert_eq!(reply["results"][1]["remaining"], 9);
    }
    let described = |tokens: &str| format!("user: a\r\nx-tokens: {tokens}\r\n");
    let by_header = policy.replace("[user]", "['header:user']");
    let server = Server::of(&by_header).await;
    let mut client = server.connect().await;
    assert_eq!(client.ask("GET", "/v1/authz", &described("9")).await.status, 200);
    let reply = client.ask("GET", "/v1/authz", &described("x")).await;
    assert_eq!((reply.status, &reply.json()["member"]), (400, &json!("header:x-tokens")));
}
