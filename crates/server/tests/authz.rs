//! `/v1/authz`, as proxies see it. The proxies themselves are in `proxies`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::{Client, Server};

const POLICIES: &str = r#"
trusted_proxies: [127.0.0.0/8]
policies:
  - { name: login, match: { path: /login, method: POST }, key: [ip], limits: [1/minute] }
  - { name: keys, key: [api_key], limits: [3/minute] }
  - { name: hosts, match: { host: one.example.com }, key: ["query:user"], limits: [1/minute] }
  - { name: shops, key: ["cookie:shop", "header:x-plan"], limits: [1/minute] }
"#;

const LOGIN: &str = "x-forwarded-method: POST\r\nx-forwarded-uri: /login?next=/\r\n";

async fn client(policies: &str) -> (Server, Client) {
    let server = Server::of(policies).await;
    let client = server.connect().await;
    (server, client)
}

#[tokio::test]
async fn a_request_passes_until_its_limit_is_reached() {
    let (_server, mut client) = client(POLICIES).await;
    let reply = client.ask("GET", "/v1/authz", LOGIN).await;
    assert_eq!((reply.status, &reply.body[..]), (200, ""));
    assert_eq!(reply.header("ratelimit-policy"), Some(r#""login";q=1;w=60"#));
    assert_eq!(reply.header("ratelimit"), Some(r#""login";r=0;t=60"#));
    let reply = client.ask("GET", "/v1/authz", LOGIN).await;
    assert_eq!(reply.status, 429);
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    assert_eq!(reply.header("retry-after"), Some("120"));
    assert_eq!(reply.json()["violated-policies"][0], "login");
    let other = "x-forwarded-method: GET\r\nx-forwarded-uri: /login\r\n";
    let reply = client.ask("GET", "/v1/authz", other).await;
    assert_eq!((reply.status, reply.header("ratelimit")), (200, None));
}

/// A proxy reads the status, also of a gRPC call: RESOURCE_EXHAUSTED is a 200, and would let the call pass.
#[tokio::test]
async fn a_denied_grpc_call_is_a_429_to_its_proxy() {
    let (_server, mut client) = client(POLICIES).await;
    let call = format!("{LOGIN}content-type: application/grpc\r\n");
    assert_eq!(client.ask("POST", "/v1/authz", &call).await.status, 200);
    let reply = client.ask("POST", "/v1/authz", &call).await;
    assert_eq!((reply.status, reply.header("grpc-status")), (429, None));
}

#[tokio::test]
async fn every_way_of_describing_a_request_counts_alike() {
    for (method, path, fields) in [
        ("GET", "/v1/authz", LOGIN),
        ("HEAD", "/v1/authz", "x-original-method: POST\r\nx-original-uri: /login\r\n"),
        ("GET", "/v1/authz", "x-original-method: POST\r\nx-original-url: https://x/login?a\r\n"),
        ("POST", "/v1/authz/login", "content-length: 0\r\n"),
        ("POST", "/v1/authz/a/../%6Cogin?a=b", "content-length: 0\r\n"),
    ] {
        let (_server, mut client) = client(POLICIES).await;
        assert_eq!(client.ask("GET", "/v1/authz", LOGIN).await.status, 200);
        // No body follows a HEAD, whatever its content-length is.
        client.send(&format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n")).await;
        assert_eq!(client.status().await, 429, "{path} {fields}");
    }
}

#[tokio::test]
async fn the_client_is_who_the_trusted_proxy_says() {
    let (_server, mut client) = client(POLICIES).await;
    let mut from = async |chain: &str| {
        let fields = format!("{LOGIN}x-forwarded-for: {chain}\r\n");
        client.ask("GET", "/v1/authz", &fields).await.status
    };
    assert_eq!(from("203.0.113.9").await, 200);
    assert_eq!(from("6.6.6.6, 203.0.113.9").await, 429, "what a client writes itself");
    assert_eq!(from("203.0.113.9, 127.0.0.7").await, 429, "two proxies of ours");
    assert_eq!(from("203.0.113.10").await, 200);
    assert_eq!(from("2001:db8::1").await, 200);
    assert_eq!(from("2001:db8::2").await, 429, "the same network");
}

#[tokio::test]
async fn no_proxy_is_trusted_by_default() {
    let (_server, mut client) =
        client("policies: [{ name: a, key: [ip], limits: [1/minute] }]").await;
    for (chain, status) in [("203.0.113.9", 200), ("203.0.113.10", 429)] {
        let fields = format!("x-forwarded-for: {chain}\r\n");
        assert_eq!(client.ask("GET", "/v1/authz", &fields).await.status, status);
    }
}

#[tokio::test]
async fn fields_cookies_queries_and_keys_tell_callers_apart() {
    let (_server, mut client) = client(POLICIES).await;
    let bearer = "authorization: Bearer k1\r\n";
    for status in [200, 200, 200, 429] {
        assert_eq!(client.ask("GET", "/v1/authz", bearer).await.status, status);
    }
    assert_eq!(client.ask("GET", "/v1/authz", "x-api-key: k1\r\n").await.status, 429);
    assert_eq!(client.ask("GET", "/v1/authz", "x-api-key: k2\r\n").await.status, 200);
    for (host, user, status) in [
        ("one.example.com", "a%62", 200),
        ("ONE.example.com:443", "ab", 429),
        ("one.example.com", "x", 200),
        ("two.example.com", "ab", 200),
    ] {
        let fields = format!("x-forwarded-host: {host}\r\nx-forwarded-uri: /?user={user}\r\n");
        assert_eq!(client.ask("GET", "/v1/authz", &fields).await.status, status, "{fields}");
    }
    let shop = "cookie: a=b; shop=s1\r\nX-Plan: pro\r\n";
    assert_eq!(client.ask("GET", "/v1/authz", shop).await.status, 200);
    assert_eq!(client.ask("GET", "/v1/authz", shop).await.status, 429);
    assert_eq!(client.ask("GET", "/v1/authz", "cookie: shop=s1\r\n").await.status, 200);
}

#[tokio::test]
async fn a_contradiction_is_refused() {
    let (_server, mut client) = client(POLICIES).await;
    let fields = format!("{LOGIN}x-original-uri: /harmless\r\n");
    let detail = client.ask("GET", "/v1/authz", &fields).await.problem(400);
    assert!(detail.contains("contradictory values"), "{detail}");
    assert_eq!(client.ask("GET", "/v1/authz", LOGIN).await.status, 200);
}

#[tokio::test]
async fn a_client_cannot_take_away_the_method_that_its_proxy_sends() {
    let (_server, mut client) = client(POLICIES).await;
    let nginx = "x-original-method: POST\r\nx-original-uri: /login\r\n";
    for added in [
        "x-forwarded-uri: /login\r\n",
        "x-forwarded-uri: /login\r\nx-forwarded-method: GET\r\n",
        "x-original-url: https://elsewhere.example/login\r\n",
    ] {
        let detail = client.ask("GET", "/v1/authz", &format!("{nginx}{added}")).await.problem(400);
        assert!(detail.contains("contradictory values"), "{added}: {detail}");
    }
    assert_eq!(client.ask("GET", "/v1/authz", nginx).await.status, 200);
    assert_eq!(client.ask("GET", "/v1/authz", nginx).await.status, 429);
}

#[tokio::test]
async fn what_is_there_twice_is_refused_if_a_policy_asks_for_it() {
    let (_server, mut client) = client(POLICIES).await;
    for (path, fields, name) in [
        ("/v1/authz", "x-plan: r1\r\nx-plan: q\r\n", "header:x-plan"),
        ("/v1/authz", "cookie: shop=r1; shop=q\r\n", "cookie:shop"),
        ("/v1/authz", "x-forwarded-uri: /?user=r1&user=q\r\n", "query:user"),
        ("/v1/authz/a?user=r1&user=q", "", "query:user"),
        ("/v1/authz", "x-api-key: q\r\nauthorization: Bearer r1\r\n", "api_key"),
    ] {
        let reply = client.ask("GET", path, fields).await;
        assert_eq!(reply.problem(400), format!("{name} occurs twice: expected once"));
        assert_eq!(reply.json()["member"], name);
    }
    let others = "x-other: a\r\nx-other: b\r\nx-forwarded-uri: /?x=1&x=2\r\n";
    assert_eq!(client.ask("GET", "/v1/authz", others).await.status, 200);
    let same = "x-api-key: k\r\nauthorization: Bearer k\r\n";
    assert_eq!(client.ask("GET", "/v1/authz", same).await.status, 200);
}

#[tokio::test]
async fn older_fields_come_in_the_unit_that_was_asked_for() {
    let limits = "policies: [{ name: a, key: [ip], limits: [1/minute] }]";
    let (_server, mut plain) = client(limits).await;
    assert_eq!(plain.ask("GET", "/v1/authz", "").await.header("x-ratelimit-limit"), None);
    for (unit, reset) in [("seconds", "120"), ("milliseconds", "120000")] {
        let (_server, mut client) =
            client(&format!("http: {{ legacy_headers: {unit} }}\n{limits}")).await;
        let reply = client.ask("GET", "/v1/authz", "").await;
        assert_eq!(reply.header("x-ratelimit-limit"), Some("1"));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some("0"));
        assert_eq!(reply.header("x-ratelimit-reset"), Some(reset));
        let reply = client.ask("GET", "/v1/authz", "").await;
        assert_eq!((reply.status, reply.header("x-ratelimit-reset")), (429, Some(reset)));
        let reply = client.check(r#"{"policy": "a", "key": "::9"}"#).await;
        assert_eq!(reply.header("x-ratelimit-reset"), Some(reset));
    }
}

/// The answer to a request that a proxy describes with these headers.
async fn asked(policies: &str, fields: &[&str]) -> Vec<u16> {
    let (_server, mut client) = client(policies).await;
    let mut statuses = Vec::new();
    for fields in fields {
        statuses.push(client.ask("GET", "/v1/authz", fields).await.status);
    }
    statuses
}

#[tokio::test]
async fn attack_02_a_method_in_lower_case_is_refused_where_a_policy_uses_methods() {
    let post = "x-forwarded-method: POST\r\nx-forwarded-uri: /login\r\n";
    let lower = "x-forwarded-method: post\r\nx-forwarded-uri: /login\r\n";
    assert_eq!(asked(POLICIES, &[post, post, lower]).await, [200, 429, 400]);
    let others = "policies: [{ name: a, key: [ip], limits: [5/minute] }]";
    assert_eq!(asked(others, &[lower]).await, [200]);
}

#[tokio::test]
async fn attack_03_another_spelling_of_a_path_is_counted_alike_or_refused() {
    let policies = "policies: [{ name: a, key: [path], limits: [1/minute] }]";
    let uri = |path: &str| format!("x-original-uri: {path}\r\n");
    let paths = [
        "/users/@me",
        "/users/%40me",
        "//host/users/@me",
        "/users/@me#x",
        "/a%2flogin",
        "/a%5cb",
        "/login;x",
        "/x/..;/login",
    ];
    let fields = paths.map(uri);
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    assert_eq!(asked(policies, &fields).await, [200, 429, 400, 400, 400, 400, 400, 400]);
    let lenient = format!(
        "http: {{ requests: {{ encoded_slashes: keep, path_parameters: ignore }} }}\n\
         path_case: ignore\n{policies}"
    );
    let fields = ["/a%2flogin", "/login;x", "/LOGIN", "/x/.;/login"].map(uri);
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    assert_eq!(asked(&lenient, &fields).await, [200, 200, 429, 400]);
}

#[tokio::test]
async fn attack_04_a_field_of_a_policy_in_its_other_spelling_is_refused() {
    let (_server, mut client) = client(POLICIES).await;
    let reply = client.ask("GET", "/v1/authz", "x_api_key: bob\r\n").await;
    assert!(reply.problem(400).contains("x_api_key"), "{reply:?}");
    assert_eq!(client.ask("GET", "/v1/authz", "x_other: bob\r\n").await.status, 200);
}

#[tokio::test]
async fn attack_05_a_tab_behind_bearer_hides_no_token() {
    let fields = [
        "authorization: Bearer tok\r\n",
        "authorization: bearer tok\r\n",
        "x-api-key: tok\r\n",
        "authorization: BEARER tok\r\n",
        "authorization: Bearer\ttok\r\n",
        "authorization: Bearer  tok\r\n",
        "authorization: Bearer a b\r\n",
        "authorization: Bearer\r\n",
    ];
    assert_eq!(asked(POLICIES, &fields).await, [200, 200, 200, 429, 401, 401, 401, 401]);
}

/// The proxy forwards both headers, and some services read only the first.
#[tokio::test]
async fn two_fields_of_cookies_are_refused_where_a_policy_uses_one() {
    let fields = ["cookie: a=b\r\ncookie: shop=c\r\n", "cookie: a=b; shop=c\r\n"];
    assert_eq!(asked(POLICIES, &fields).await, [400, 200]);
    let (_server, mut client) = client(POLICIES).await;
    let joined = client.ask("GET", "/v1/authz/a", "cookie: a=b,shop=c; d=e\r\n").await;
    assert_eq!(joined.status, 400, "as Envoy joins them");
    let others = "policies: [{ name: a, key: [ip], limits: [9/minute] }]";
    assert_eq!(asked(others, &fields).await, [200, 200]);
}

#[tokio::test]
async fn attack_10_a_strange_host_is_refused_where_a_policy_uses_hosts() {
    let host = |host: &str| format!("x-forwarded-uri: /\r\nx-forwarded-host: {host}\r\n");
    let fields =
        ["one.example.com", "one.example.com..", "one.example.com:80:80", "[one.example.com]"];
    let fields = fields.map(host);
    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
    assert_eq!(asked(POLICIES, &fields).await, [200, 400, 400, 400]);
}

#[tokio::test]
async fn attack_17_and_22_odd_cookies_and_queries_are_refused_where_a_policy_uses_them() {
    let fields = [
        "cookie: shop=\"abc\"\r\n",
        "cookie: a=1 shop=abc\r\n",
        "x-forwarded-uri: /?a=1;user=bob\r\n",
        "x-forwarded-uri: /?user[]=bob\r\n",
        "x-forwarded-uri: /?user=bob\r\n",
    ];
    assert_eq!(asked(POLICIES, &fields).await, [400, 400, 400, 400, 200]);
}
