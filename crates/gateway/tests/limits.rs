//! Who may pass, and what the others are told.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use serde_json::{Value, json};
use support::echo::Echo;
use support::{Front, soon};
use tidegate::Span;

async fn front(upstream: SocketAddr, policies: &str) -> Front {
    Front::start(&with(upstream, "", policies)).await
}

fn with(upstream: SocketAddr, fields: &str, policies: &str) -> String {
    format!("gateway:\n  upstreams: {{ up: http://{upstream} }}\n{fields}\npolicies: {policies}\n")
}

fn request(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nhost: a\r\n{fields}content-length: 0\r\n\r\n")
}

#[tokio::test]
async fn who_is_denied_never_reaches_the_service() {
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
    assert!(front.get("/?q=1&q=2").await.problem(400).contains("query:q is there twice"));
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
async fn a_policy_has_words_of_its_own() {
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
async fn the_service_says_what_a_request_has_cost() {
    let echo = Echo::start().await;
    let policy = "[{ name: tokens, key: [ip], limits: [100/minute], algorithm: sliding-log, \
                  cost: { response_header: x-tokens, default: 10 } }]";
    let front = front(echo.address, policy).await;
    let left = async |front: &Front| {
        let reply = front.get("/?x-tokens=0").await;
        let field = reply.header("ratelimit").unwrap().to_owned();
        field.split(";r=").nth(1).unwrap().split(';').next().unwrap().parse::<u64>().unwrap() + 1
    };
    assert_eq!(left(&front).await, 100, "nothing costs nothing");
    front.get("/?x-tokens=30").await;
    assert_eq!(left(&front).await, 70);
    front.get("/").await;
    assert_eq!(left(&front).await, 60, "the default");
    // More than there is: the rest is taken, and the next one waits.
    assert_eq!(front.get("/?x-tokens=1000").await.status, 200);
    assert_eq!(front.get("/").await.status, 429);
}

#[tokio::test]
async fn what_is_taken_afterwards_is_no_decision() {
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

#[tokio::test(start_paused = true)]
async fn the_denied_wait_in_line() {
    let echo = Echo::start().await;
    let text = with(
        echo.address,
        "",
        "[{ name: smooth, key: [ip], limits: [10/second burst 1], on_denied: wait, max_wait: 350ms }]",
    );
    // A clock of the system's kind: waiting moves it.
    let store = tidegate::MemoryStore::builder().clock(TokioClock::new()).build();
    let front = Front::on(&text, store, tidegate_server::Config::default()).await;
    let start = tokio::time::Instant::now();
    let mut waiting = Vec::new();
    for number in 0..6 {
        let mut client = front.connect().await;
        client.send(&format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        waiting.push(tokio::spawn(async move {
            let reply = client.reply().await;
            (reply.status, start.elapsed().as_millis() / 100)
        }));
        // In this order.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    let mut outcomes = Vec::new();
    for task in waiting {
        outcomes.push(soon(task).await.unwrap());
    }
    let passed: Vec<_> = outcomes.iter().filter(|(status, _)| *status == 200).collect();
    assert_eq!(passed, [&(200, 0), &(200, 1), &(200, 2), &(200, 3)], "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|(status, _)| *status == 429).count(), 2);
}

/// Time as tokio has it, so that a test can let it pass.
struct TokioClock(tokio::time::Instant);

impl TokioClock {
    fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl tidegate::Clock for TokioClock {
    fn now(&self) -> tidegate::Timestamp {
        tidegate::Timestamp::from_secs(1_000_000_020) + Span::from(self.0.elapsed())
    }
}

const SECRET: &str = "a secret of at least thirty-two bytes, as it should be";

fn token(claims: &Value, secret: &str) -> String {
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
    // Whoever guesses is limited like everybody.
    assert_eq!(ask("authorization: Bearer x\r\n").await.status, 401);
    assert_eq!(ask("authorization: Bearer x\r\n").await.status, 429);
}

#[tokio::test]
async fn a_reload_changes_routes_and_limits_and_keeps_counters() {
    let (one, two) = (Echo::start().await, Echo::start().await);
    let policy = "[{ name: p, key: [ip], limits: [3/minute] }]";
    let front = front(one.address, policy).await;
    let mut client = front.connect().await;
    assert_eq!(client.get("/").await.status, 200);
    front.reload(&with(two.address, "", policy));
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one.requests(), two.requests()), (1, 1));
    // A file that is missing leaves everything as it was.
    let jwt = "  jwt: { keys: /nowhere, algorithms: HS256 }";
    front.reload(&with(one.address, jwt, policy));
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!((one.requests(), two.requests()), (1, 2));
    assert_eq!(client.get("/").await.status, 429);
}

#[tokio::test]
async fn requests_are_written_down() {
    let echo = Echo::start().await;
    let file = std::env::temp_dir().join(format!("tidegate-access-{}", std::process::id()));
    let log = |keys: &str| format!("  access_log: {{ file: {}, keys: {keys} }}", file.display());
    let policies = "[{ name: p, key: ['header:x-user'], limits: [1/minute] }]";
    let mut lines = Vec::new();
    for keys in ["hashed", "plain"] {
        let mut front = Front::start(&with(echo.address, &log(keys), policies)).await;
        for _ in 0..2 {
            let fields = "x-user: \"alice\"\r\nuser-agent: test/1\r\n";
            front.ask(&request("GET", "/a/../b?secret=1", fields)).await;
        }
        front.ask("GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n").await;
        front.stop();
        let Front { app, gateway, .. } = front;
        drop((app, gateway));
        // The last holder of the log closes it.
        let read = || std::fs::read_to_string(&file).unwrap_or_default();
        soon(async {
            while read().lines().count() < 3 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        lines = read().lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        let line = &lines[0];
        for (member, value) in [
            ("method", json!("GET")),
            ("host", json!("a")),
            ("path", json!("/b")),
            ("route", json!("up")),
            ("status", json!(200)),
            ("user_agent", json!("test/1")),
            ("policy", json!("p")),
            ("allowed", json!(true)),
            ("upstream", json!(format!("up http://{}", echo.address))),
        ] {
            assert_eq!(line[member], value, "{line}");
        }
        assert!(line["bytes"].as_u64().unwrap() > 100 && line["ms"].is_u64(), "{line}");
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
        assert_eq!((&lines[1]["status"], &lines[1]["allowed"]), (&json!(429), &json!(false)));
        assert_eq!(lines[2]["status"], 400);
        let shown = line["attributes"]["header:x-user"].as_str().unwrap();
        assert_eq!(shown == "\"alice\"", keys == "plain");
        assert_eq!(line["ip"] == "127.0.0.1", keys == "plain");
        assert_eq!(lines[0]["ip"], lines[1]["ip"]);
        std::fs::remove_file(&file).unwrap();
    }
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn every_request_is_somebodys_even_without_a_policy() {
    let echo = Echo::start().await;
    let front = front(echo.address, "[{ name: p, key: [user], limits: [1/minute] }]").await;
    let reply = front.get("/").await;
    assert_eq!((reply.status, reply.header("ratelimit")), (200, None));
}
