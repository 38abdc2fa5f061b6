//! The gateway counts the request that the service serves: other spellings of a request are counted alike
//! or refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use support::echo::Echo;
use support::recorder::Recorder;
use support::{Front, GENEROUS, fields, front, request, with};

/// The statuses of these requests, one after the other.
async fn statuses(front: &Front, requests: &[String]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for text in requests {
        statuses.push(front.ask(text).await.status);
    }
    statuses
}

fn get(target: &str, fields: &str) -> String {
    request("GET", target, fields)
}

#[tokio::test]
async fn attack_02_a_method_in_lower_case_is_refused() {
    let echo = Echo::start().await;
    let policies =
        "[{ name: login, match: { path: /login, method: POST }, key: [ip], limits: [1/hour] }]";
    let front = front(echo.address, policies).await;
    let all = ["POST", "POST", "post", "Post", "pOST"].map(|it| request(it, "/login", ""));
    assert_eq!(statuses(&front, &all).await, [200, 429, 400, 400, 400]);
    assert_eq!(echo.requests(), 1);
}

#[tokio::test]
async fn attack_22_trace_is_not_served() {
    let echo = Echo::start().await;
    let front = Front::to(echo.address).await;
    let reply = front.ask("TRACE / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(reply.problem(405).contains("TRACE"), "{reply:?}");
    assert_eq!(echo.requests(), 0);
}

#[tokio::test]
async fn attack_03_every_spelling_of_a_path_is_counted_and_forwarded_alike() {
    let echo = Echo::start().await;
    let policies = "[{ name: a, key: [path], limits: [1/hour] }]";
    let front = front(echo.address, policies).await;
    for (first, others) in [
        ("/v1/mail:send", &["/v1/mail%3Asend", "/v1/mail%3asend"][..]),
        ("/users/@me", &["/users/%40me", "/users/%40%6De/"]),
        ("/!$&'()*+,=", &["/%21%24%26%27%28%29%2A%2B%2C%3D"]),
        ("/%7Bx%7D", &["/{x}", "/%7bx}"]),
    ] {
        let reply = front.ask(&get(first, "")).await;
        assert_eq!((reply.status, &reply.json()["target"]), (200, &first.into()), "{first}");
        for other in others {
            assert_eq!(front.ask(&get(other, "")).await.status, 429, "{other}");
        }
    }
    let served = echo.requests();
    for path in ["/a%2fb", "/a%5cb", "/a\\b", "/login;x", "/;a/login", "/x/..;/login", "/x/.;/y"] {
        assert_eq!(front.ask(&get(path, "")).await.status, 400, "{path}");
    }
    assert_eq!(echo.requests(), served);
    let escaped = front.ask(&get("/%7B", "")).await;
    assert_eq!(escaped.json()["target"], "/%7B");
}

#[tokio::test]
async fn attack_03_path_parameters_are_what_the_file_says() {
    for (choice, counted_alike, target) in
        [("strip", true, "/login"), ("ignore", true, "/login;x=1"), ("keep", false, "/login;x=1")]
    {
        let echo = Echo::start().await;
        let text = with(
            echo.address,
            &format!("  requests: {{ path_parameters: {choice} }}"),
            "[{ name: a, match: { path: /login }, key: [ip], limits: [1/hour] }]",
        );
        let front = Front::start(&text).await;
        let reply = front.ask(&get("/login;x=1", "")).await;
        assert_eq!(reply.json()["target"], target, "{choice}");
        let expected = if counted_alike { 429 } else { 200 };
        assert_eq!(front.ask(&get("/login;y", "")).await.status, expected, "{choice}");
        for path in ["/x/..;/login", "/login%3Bx"] {
            assert_eq!(front.ask(&get(path, "")).await.status, 400, "{choice} {path}");
        }
    }
}

#[tokio::test]
async fn attack_03_letter_case_does_not_matter_where_the_file_says_so() {
    let echo = Echo::start().await;
    let policies =
        "[{ name: a, match: { path: [/Login, \"/V1/*\"] }, key: [path], limits: [1/hour] }]";
    let text = format!("path_case: ignore\n{}", with(echo.address, "", policies));
    let front = Front::start(&text).await;
    let reply = front.ask(&get("/LOGIN", "")).await;
    assert_eq!((reply.status, &reply.json()["target"]), (200, &"/LOGIN".into()));
    let others = ["/login", "/%4Cogin", "/LoGiN/"].map(|path| get(path, ""));
    assert_eq!(statuses(&front, &others).await, [429, 429, 429]);
    assert_eq!(statuses(&front, &["/v1/a", "/V1/A"].map(|path| get(path, ""))).await, [200, 429]);
}

#[tokio::test]
async fn attack_04_fields_with_underscores_are_dropped() {
    let echo = Echo::start().await;
    let gateway = "  request_headers: { set: { x-internal-key: secret }, remove: [x-user] }";
    let policies = "[{ name: a, key: [{ attribute: api_key, default: none }], limits: [1/hour] }]";
    let front = Front::start(&with(echo.address, gateway, policies)).await;
    let forged = "x_api_key: bob\r\nx_internal_key: attacker\r\nx_user: root\r\nx_y: 1\r\n";
    let reply = front.ask(&get("/", forged)).await;
    let seen = reply.json();
    for name in ["x_api_key", "x_internal_key", "x_user", "x_y"] {
        assert!(fields(&seen, name).is_empty(), "{name}: {seen}");
    }
    assert_eq!(fields(&seen, "x-internal-key"), ["secret"]);
    // The key was dropped, so both requests were counted as requests without a key.
    assert_eq!(front.ask(&get("/", "x_api_key: eve\r\n")).await.status, 429);
}

#[tokio::test]
async fn attack_04_rules_hold_against_both_spellings_where_underscores_are_kept() {
    let echo = Echo::start().await;
    let gateway = "  requests: { underscores: keep }\n\
                   \x20 request_headers: { set: { x-internal-key: secret }, remove: [x-user] }";
    let front = Front::start(&with(echo.address, gateway, &GENEROUS["policies: ".len()..])).await;
    let forged =
        "x_internal_key: attacker\r\nx_user: root\r\nx_y: 1\r\nx_forwarded_for: 1.1.1.1\r\n";
    let seen = front.ask(&get("/", forged)).await.json();
    assert_eq!(fields(&seen, "x_y"), ["1"]);
    for name in ["x_internal_key", "x_user", "x_forwarded_for"] {
        assert!(fields(&seen, name).is_empty(), "{name}: {seen}");
    }
}

#[tokio::test]
async fn attack_04_a_field_that_a_policy_names_with_an_underscore_is_forwarded() {
    let echo = Echo::start().await;
    let front =
        front(echo.address, "[{ name: a, key: ['header:x_user'], limits: [1/hour] }]").await;
    let reply = front.ask(&get("/", "x_user: bob\r\n")).await;
    assert_eq!(fields(&reply.json(), "x_user"), ["bob"]);
    assert_eq!(front.ask(&get("/", "x-user: bob\r\n")).await.status, 400);
}

#[tokio::test]
async fn attack_05_authorization_has_one_spelling_and_other_schemes_can_be_refused() {
    let echo = Echo::start().await;
    let policies = "[{ name: a, key: ['header:authorization'], limits: [1/hour] }]";
    let front = front(echo.address, policies).await;
    let field = |value: &str| get("/", &format!("authorization: {value}\r\n"));
    let all = ["Bearer tok", "bearer tok", "Bearer\ttok", "bearer  tok", "Bearer"].map(field);
    assert_eq!(statuses(&front, &all).await, [200, 429, 401, 401, 401]);
    let text = with(echo.address, "  requests: { other_schemes: refuse }", policies);
    let front = Front::start(&text).await;
    let all = ["Basic abc", "tok", "Bearer x"].map(field);
    assert_eq!(statuses(&front, &all).await, [401, 401, 200]);
}

#[tokio::test]
async fn attack_08_connection_names_only_what_concerns_a_connection() {
    let echo = Echo::start().await;
    let policies = "[{ name: a, key: [{ attribute: api_key, default: none }], limits: [9/hour] }]";
    let front = front(echo.address, policies).await;
    for (value, status) in [
        ("x-api-key", 400),
        ("close, X-Api-Key", 400),
        ("authorization", 400),
        ("x-other", 400),
        ("keep-alive", 200),
        ("Keep-Alive, TE", 200),
        ("close", 200),
    ] {
        let fields = format!("connection: {value}\r\nx-api-key: random\r\n");
        assert_eq!(front.ask(&get("/", &fields)).await.status, status, "{value}");
    }
}

#[tokio::test]
async fn attack_10_there_is_exactly_one_valid_host() {
    let echo = Echo::start().await;
    let policies = "[{ name: a, match: { host: api.example.org }, key: [ip], limits: [1/hour] }]";
    let front = front(echo.address, policies).await;
    let with_host = |host: &str| format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let reply = front.ask(&with_host("API.example.org.:80")).await;
    assert_eq!(fields(&reply.json(), "host"), ["api.example.org:80"]);
    assert_eq!(front.ask(&with_host("api.example.org")).await.status, 429);
    for host in
        ["api.example.org..", "api.example.org:80:80", "[api.example.org]", "api..org", "a:b", ""]
    {
        assert_eq!(front.ask(&with_host(host)).await.status, 400, "{host}");
    }
    assert_eq!(front.ask("GET / HTTP/1.0\r\n\r\n").await.status, 400);
    assert_eq!(front.ask("GET / HTTP/1.0\r\nhost: a\r\n\r\n").await.status, 200);
}

#[tokio::test]
async fn attack_17_odd_cookies_are_refused_and_all_are_forwarded_in_one_field() {
    let echo = Echo::start().await;
    let front = front(echo.address, "[{ name: a, key: ['cookie:sid'], limits: [1/hour] }]").await;
    let cookie = |value: &str| get("/", &format!("cookie: {value}\r\n"));
    let all = ["sid=abc", "sid=%61bc", r#"sid="abc""#, r#"sid="\141bc""#, "a=1 sid=abc", "SID=abc"];
    assert_eq!(statuses(&front, &all.map(cookie)).await, [200, 429, 400, 400, 400, 400]);
    let seen = front.ask(&get("/", "cookie: a=1\r\ncookie: b=2; c=3\r\n")).await.json();
    assert_eq!(fields(&seen, "cookie"), ["a=1; b=2; c=3"]);
}

#[tokio::test]
async fn attack_19_trailers_of_requests_are_dropped() {
    let service = Recorder::start().await;
    let front = Front::to(service.address).await;
    let text = "POST / HTTP/1.1\r\nhost: a\r\nx-api-key: good\r\ntrailer: x-api-key\r\n\
                transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\
                x-api-key: evil\r\ncookie: sid=evil\r\nx-any: 1\r\n\r\n";
    assert_eq!(front.ask(text).await.status, 200);
    let heard = String::from_utf8(service.take()).unwrap();
    for gone in ["evil", "x-any", "trailer:"] {
        assert!(!heard.contains(gone), "{heard}");
    }
    assert!(heard.contains("x-api-key: good"), "{heard}");
}

#[tokio::test]
async fn attack_22_queries_with_semicolons_and_brackets_are_refused_where_a_policy_uses_one() {
    let service = Recorder::start().await;
    let front =
        front(service.address, "[{ name: a, key: ['query:user'], limits: [9/hour] }]").await;
    for (query, status) in [
        ("a=1;user=bob", 400),
        ("user[]=bob", 400),
        ("user%5B%5D=bob", 400),
        ("USER=bob", 400),
        ("user=bob&user=bob", 400),
        ("user=bob", 200),
        ("other[]=1&other[]=2", 200),
    ] {
        assert_eq!(front.ask(&get(&format!("/?{query}"), "")).await.status, status, "{query}");
    }
    let free = Front::to(service.address).await;
    assert_eq!(free.ask(&get("/?a=1;user=bob", "")).await.status, 200);
}

#[tokio::test]
async fn attack_22_fields_that_override_a_request_are_dropped() {
    let echo = Echo::start().await;
    let names = [
        "x-original-url",
        "x-rewrite-url",
        "x-http-method-override",
        "x-http-method",
        "x-method-override",
        "x-forwarded-prefix",
        "true-client-ip",
    ];
    let all: String = names.iter().map(|name| format!("{name}: /admin\r\n")).collect();
    let front = Front::to(echo.address).await;
    let seen = front.ask(&get("/", &all)).await.json();
    for name in names {
        assert!(fields(&seen, name).is_empty(), "{name}");
    }
    let policies = &GENEROUS["policies: ".len()..];
    let text = with(echo.address, "  requests: { override_fields: keep }", policies);
    let seen = Front::start(&text).await.ask(&get("/", &all)).await.json();
    for name in names {
        assert_eq!(fields(&seen, name), ["/admin"], "{name}");
    }
}
