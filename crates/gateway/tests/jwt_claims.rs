//! Claims of tokens, as keys of policies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use support::echo::Echo;
use support::{Front, request, with};
use tidegate::{Clock as _, SystemClock};

const SECRET: &str = "a secret of at least thirty-two bytes, as it should be";

/// A token that is valid for an hour, unless the claims have `exp`.
fn token(claims: &Value, secret: &str) -> String {
    let now = SystemClock::new().now().as_micros() / 1_000_000;
    let mut claims = claims.clone();
    claims.as_object_mut().unwrap().entry("exp").or_insert(json!(now + 3_600));
    let claims = &claims;
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", encode(&json!({"alg": "HS256"})), encode(claims));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let proof = hmac::sign(&key, message.as_bytes());
    format!("authorization: Bearer {message}.{}\r\n", URL_SAFE_NO_PAD.encode(proof))
}

#[tokio::test]
async fn claims_count_only_when_they_are_verified() {
    let echo = Echo::start().await;
    let file = std::env::temp_dir().join(format!("tidegate-secret-{}", std::process::id()));
    std::fs::write(&file, SECRET).unwrap();
    let jwt = format!("  jwt: {{ keys: {}, algorithms: HS256 }}", file.display());
    let policies = "[{ name: user, key: ['jwt:sub'], limits: [1/minute] }, \
                    { name: all, key: [ip], limits: [6/minute] }]";
    let front = Front::start(&with(echo.address, &jwt, policies)).await;
    let _ = std::fs::remove_file(&file);
    let ask = async |fields: &str| front.ask(&request("GET", "/", fields)).await;
    let (alice, bob) = (json!({"sub": "alice"}), json!({"sub": "bob"}));
    assert_eq!(ask(&token(&alice, SECRET)).await.status, 200);
    assert_eq!(ask(&token(&alice, SECRET)).await.status, 429);
    assert_eq!(ask(&token(&bob, SECRET)).await.status, 200);
    let reply = ask(&token(&alice, "somebody else's")).await;
    assert!(reply.problem(401).contains("signature"));
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    assert_eq!(ask(&token(&json!({"sub": "x", "exp": 1}), SECRET)).await.status, 401);
    assert_eq!(ask("").await.status, 200, "no token is needed");
    assert_eq!(echo.requests(), 3);
    // A client that guesses tokens is limited by its address.
    assert_eq!(ask("authorization: Bearer x\r\n").await.status, 401);
    assert_eq!(ask("authorization: Bearer x\r\n").await.status, 429);
}

#[tokio::test]
async fn attack_20_a_denied_flood_of_forged_tokens_verifies_no_signature() {
    let echo = Echo::start().await;
    let file = std::env::temp_dir().join(format!("tidegate-flood-{}", std::process::id()));
    std::fs::write(&file, SECRET).unwrap();
    let jwt = format!("  jwt: {{ keys: {}, algorithms: HS256 }}", file.display());
    let policies = "[{ name: user, key: ['jwt:sub'], limits: [9/minute] }, \
                    { name: all, key: [ip], limits: [3/minute], algorithm: sliding-log }]";
    let front = Front::start(&with(echo.address, &jwt, policies)).await;
    let _ = std::fs::remove_file(&file);
    let forged = token(&json!({"sub": "alice"}), "somebody else's");
    let ask = async || front.ask(&request("GET", "/", &forged)).await.status;
    for _ in 0..3 {
        assert_eq!(ask().await, 401);
    }
    assert_eq!(front.gateway.verified_signatures(), 3);
    for _ in 0..20 {
        assert_eq!(ask().await, 429);
    }
    assert_eq!(front.gateway.verified_signatures(), 3);
    // Each request is one decision, and no policy with claims was charged.
    assert_eq!(front.decisions("all", "denied").await, 20);
    assert_eq!(front.decisions("all", "allowed").await, 3);
    assert_eq!(front.decisions("user", "denied").await, 0);
    // A minute later there is room, and the token is verified again.
    front.clock.advance(tidegate::Span::from_secs(61));
    let alice = token(&json!({"sub": "alice"}), SECRET);
    assert_eq!(front.ask(&request("GET", "/", &alice)).await.status, 200);
    assert_eq!(front.gateway.verified_signatures(), 4);
}
