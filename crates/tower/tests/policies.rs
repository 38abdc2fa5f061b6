//! The layer with policies.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use support::{from, get_from, statuses};
use tidegate::config::{PathParameters, PolicySource, RequestRules};
use tidegate::{Cost, DecisionReason, MemoryStore, PlanLimiter};
use tidegate_tower::{RateLimitLayer, RequestKey};
use tower::ServiceExt;

fn planned(text: &str) -> Arc<PlanLimiter> {
    let source = PolicySource::new("test", text).unwrap();
    Arc::new(PlanLimiter::load(&source, MemoryStore::new()).unwrap())
}

fn app(layer: RateLimitLayer) -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/users/{id}", get(|| async { "user" }))
        .route("/fails", get(|| async { StatusCode::UNAUTHORIZED }))
        .route_layer(layer)
}

#[tokio::test]
async fn a_file_is_read_or_all_its_problems_are_told() {
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let layer = RateLimitLayer::policy_file(format!("{files}/examples/policies/gateway.yaml"));
    let app = app(layer.unwrap());
    assert_eq!(statuses(&app, [get_from("::1")]).await, [200]);
    let bad = format!("{files}/crates/policy/tests/bad/month.yaml");
    let problems = RateLimitLayer::policy_file(bad).unwrap_err();
    assert!(problems.to_string().contains("month"), "{problems}");
    let problems = RateLimitLayer::policy_file("no/such/file.yaml").unwrap_err();
    assert!(problems.to_string().contains("no/such/file.yaml"), "{problems}");
}

#[tokio::test]
async fn what_the_program_names_comes_from_the_program() {
    #[derive(Clone)]
    struct User(&'static str);
    let text = "policies: [{ name: a, key: ['header:x-user', route], limits: [1/day] }]";
    let layer = RateLimitLayer::limiter(planned(text))
        .attribute("header:x-user", RequestKey::extension(|user: &User| user.0));
    let app = app(layer);
    let request = |path: &str, user: Option<&'static str>, spoofed: &str| {
        let mut request = from("::1", path);
        request.headers_mut().insert("x-user", spoofed.parse().unwrap());
        if let Some(user) = user {
            request.extensions_mut().insert(User(user));
        }
        request
    };
    let requests = [
        request("/users/1", Some("alice"), "a"),
        request("/users/2", Some("alice"), "b"),
        request("/users/2", Some("bob"), "b"),
        request("/", Some("alice"), "a"),
        // The policy does not apply to a request without a user.
        request("/users/1", None, "alice"),
        request("/users/1", None, "alice"),
    ];
    assert_eq!(statuses(&app, requests).await, [200, 429, 200, 200, 200, 200]);
}

#[tokio::test]
async fn a_number_is_an_attribute_as_people_write_it() {
    #[derive(Clone)]
    struct User(u64);
    let text =
        "policies: [{ name: a, key: [user], limits: [1/day], overrides: { user=42: unlimited } }]";
    let layer = RateLimitLayer::limiter(planned(text))
        .attribute("user", RequestKey::extension(|user: &User| user.0));
    let app = app(layer);
    let request = |id| {
        let mut request = get_from("::1");
        request.extensions_mut().insert(User(id));
        request
    };
    assert_eq!(statuses(&app, [42, 42, 7, 7].map(request)).await, [200, 200, 200, 429]);
}

#[tokio::test]
async fn a_policy_by_address_holds_also_where_no_address_is_known() {
    let text = "
trusted_proxies: [10.0.0.0/8]
policies: [{ name: a, key: [ip], limits: [1/day] }]";
    let app = app(RateLimitLayer::limiter(planned(text)));
    let unknown = |field: &str| {
        let mut request = axum::http::Request::get("/").body(axum::body::Body::empty()).unwrap();
        request.headers_mut().insert("x-forwarded-for", field.parse().unwrap());
        request
    };
    assert_eq!(statuses(&app, ["1.1.1.1", "2.2.2.2"].map(unknown)).await, [200, 429]);
}

#[tokio::test]
async fn a_repeated_value_is_refused() {
    let text = "policies: [{ name: a, key: [api_key], limits: [1/day] }]";
    let request = |token: &str| {
        let mut request = get_from("::1");
        request.headers_mut().insert("x-api-key", "k".parse().unwrap());
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        request
    };
    let requests = || ["r1", "r2", "k", "k"].map(request);
    let layer = || RateLimitLayer::limiter(planned(text));
    assert_eq!(statuses(&app(layer()), requests()).await, [400, 400, 200, 429]);
    assert_eq!(statuses(&app(layer().shadow()), requests()).await, [200, 200, 200, 200]);
}

#[tokio::test]
async fn proxies_that_a_file_trusts_are_trusted() {
    let policy = "policies: [{ name: a, key: [ip], limits: [1/day] }]";
    let forwarded = |address: &str| {
        let mut request = get_from("10.0.0.1");
        request.headers_mut().insert("x-forwarded-for", address.parse().unwrap());
        request
    };
    let requests = || ["1.1.1.1", "2.2.2.2", "9.9.9.9, 1.1.1.1"].map(forwarded);
    let trusting =
        app(RateLimitLayer::limiter(planned(&format!("trusted_proxies: [10.0.0.0/8]\n{policy}"))));
    assert_eq!(statuses(&trusting, requests()).await, [200, 200, 429]);
    let by_address = || RequestKey::client_ip().trust_hops(1);
    for key in [by_address(), RequestKey::all([by_address(), RequestKey::header("x-user")])] {
        let told = RateLimitLayer::limiter(planned(policy)).by(key);
        assert_eq!(statuses(&app(told), requests()).await, [200, 200, 429]);
    }
    let alone = app(RateLimitLayer::limiter(planned(policy)));
    assert_eq!(statuses(&alone, requests()).await, [200, 429, 429]);
}

/// A file for logins that blocks, with more fields of the policy or the file.
fn logins(limit: &str, fields: &str) -> Arc<PlanLimiter> {
    let policy = format!("name: login, key: [ip], limits: [{limit}], block_for: 1h{fields}");
    planned(&format!("policies: [{{ {policy} }}]"))
}

#[tokio::test]
async fn who_fails_too_often_is_blocked() {
    let app = app(RateLimitLayer::limiter(logins("2/minute", "")).count_failures());
    let fails = || from("::1", "/fails");
    let requests = [get_from("::1"), fails(), get_from("::1"), get_from("::1"), fails()];
    assert_eq!(statuses(&app, requests).await, [200, 401, 200, 200, 401]);
    let blocked = app.clone().oneshot(get_from("::1")).await.unwrap();
    assert_eq!(blocked.status(), 429);
    let wait: u64 = blocked.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(wait > 3_500, "{wait}");
    assert_eq!(statuses(&app, [get_from("::2:0:0:0:1")]).await, [200]);
}

#[tokio::test]
async fn who_does_not_fail_is_not_blocked() {
    let (open, gate) = tokio::sync::watch::channel(false);
    let login = async move || drop(gate.clone().wait_for(|is_open| *is_open).await);
    let layer = RateLimitLayer::limiter(logins("5/day", "")).count_failures();
    let app = Router::new().route("/", get(login)).layer(layer);
    let mut logins = tokio::task::JoinSet::new();
    for _ in 0..6 {
        logins.spawn(app.clone().oneshot(get_from("::1")));
    }
    let mut next = async || logins.join_next().await.unwrap().unwrap().unwrap().status();
    // While the others are in flight, there is no room for the sixth.
    assert_eq!(next().await, 429);
    open.send(true).unwrap();
    for _ in 0..5 {
        assert_eq!(next().await, 200);
    }
    assert_eq!(statuses(&app, [get_from("::1")]).await, [200]);
}

#[tokio::test]
async fn what_is_only_watched_or_looked_at_blocks_nobody() {
    let limiter = logins("1/day", "");
    let layer = || RateLimitLayer::limiter(Arc::clone(&limiter));
    assert_eq!(statuses(&app(layer()), [get_from("::1")]).await, [200], "uses up all");
    for layer in [layer().cost(|_| 0), layer().shadow()] {
        let app = app(layer.count_failures());
        assert_eq!(statuses(&app, [from("::1", "/fails")]).await, [401]);
    }
    let denied = limiter.check(&[("ip", "::1")], Cost::ONE).await;
    assert_eq!(denied.reason(), DecisionReason::LimitExceeded);
}

#[tokio::test]
async fn older_fields_are_there_if_the_file_wants_them() {
    let text = "{ http: { legacy_headers: seconds }, \
                policies: [{ name: a, key: [ip], limits: [1/minute burst 1] }] }";
    let fields = async |layer: RateLimitLayer| {
        let app = app(layer);
        let mut said = Vec::new();
        for _ in 0..2 {
            let response = app.clone().oneshot(get_from("::1")).await.unwrap();
            let field =
                |name| response.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
            let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
            said.push((response.status().as_u16(), names.map(field)));
        }
        said
    };
    let told = ["1", "0", "60"].map(|it| Some(it.to_owned()));
    let said = fields(RateLimitLayer::limiter(planned(text))).await;
    assert_eq!(said, [(200, told.clone()), (429, told)]);
    let said = fields(RateLimitLayer::limiter(planned(text)).without_fields()).await;
    assert_eq!(said, [(200, [const { None }; 3]), (429, [const { None }; 3])]);
}

#[tokio::test]
async fn a_call_that_says_something_twice_is_told_so_as_grpc() {
    let text = "policies: [{ name: a, key: ['header:x-user'], limits: [1/day] }]";
    let by_policies = RateLimitLayer::limiter(planned(text));
    let by_key = RateLimitLayer::new("1/day").unwrap().by(RequestKey::header("x-user"));
    for layer in [by_policies, by_key] {
        let call = Request::post("/")
            .header("content-type", "application/grpc+proto")
            .header("x-user", "a")
            .header("x-user", "b");
        let answer = app(layer).oneshot(call.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/grpc+proto");
        assert_eq!(answer.headers()["grpc-status"], "3");
        let message = "header:x-user occurs twice: expected once";
        assert_eq!(answer.headers()["grpc-message"], message);
        assert!(answer.into_body().is_end_stream());
    }
}

#[tokio::test]
async fn a_plan_can_be_replaced_and_only_failures_counted() {
    let limiter = planned("policies: [{ name: a, key: [], limits: [1/day] }]");
    let layer = RateLimitLayer::limiter(Arc::clone(&limiter)).count_failures();
    let app = app(layer);
    assert_eq!(statuses(&app, [get_from("::1"), get_from("::1")]).await, [200, 200]);
    let fails = || from("::1", "/fails");
    assert_eq!(statuses(&app, [fails(), fails(), get_from("::1")]).await, [401, 429, 429]);
    let more =
        PolicySource::new("test", "policies: [{ name: a, key: [], limits: [2/day] }]").unwrap();
    limiter.reload(&more).unwrap();
    assert_eq!(statuses(&app, [fails(), fails()]).await, [401, 429]);
}

/// A service that never answers.
#[derive(Clone)]
struct Silent;

impl tower::Service<Request<Body>> for Silent {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = std::future::Pending<Result<Self::Response, Self::Error>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::pending()
    }
}

#[tokio::test]
async fn attack_14_attempts_whose_clients_hang_up_count_and_block() {
    use tower::{Layer as _, Service as _};
    let text = "policies: [{ name: logins, key: [ip], limits: [2/minute], block_for: 1h, \
                algorithm: sliding-log }]";
    let limiter = planned(text);
    let layer = RateLimitLayer::limiter(Arc::clone(&limiter)).count_failures();
    let mut service = layer.layer(Silent);
    for _ in 0..2 {
        let mut attempt = Box::pin(service.call(from("192.0.2.1", "/")));
        let is_pending = std::future::poll_fn(|context| {
            std::task::Poll::Ready(attempt.as_mut().poll(context).is_pending())
        });
        assert!(is_pending.await);
        drop(attempt);
    }
    let decision = limiter.check(&[("ip", "192.0.2.1")], Cost::ONE).await;
    assert!(!decision.is_allowed());
    assert_eq!(decision.reason(), DecisionReason::Blocked);
}

/// The statuses of requests for `/` with these fields, in front of a plan.
async fn asked<const N: usize>(text: &str, fields: [(&'static str, &str); N]) -> [u16; N] {
    let app = app(RateLimitLayer::limiter(planned(text)));
    let request = |(name, value): (&'static str, &str)| {
        let mut request = get_from("::1");
        request.headers_mut().insert("host", "a".parse().unwrap());
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    statuses(&app, fields.map(request)).await
}

#[tokio::test]
async fn attack_02_and_03_spellings_of_methods_and_paths_are_refused_or_counted_alike() {
    let text = "policies: [{ name: a, match: { method: GET }, key: [path], limits: [1/day] }]";
    let limited = |rules: Option<RequestRules>| {
        let layer = RateLimitLayer::limiter(planned(text));
        let layer = match rules {
            Some(rules) => layer.requests(rules),
            None => layer,
        };
        Router::new().fallback(|| async { "any" }).layer(layer)
    };
    let request = |method: &str, path: &str| {
        Request::builder().method(method).uri(path).body(Body::empty()).unwrap()
    };
    let requests = || {
        [("GET", "/@me"), ("GET", "/%40me"), ("get", "/x"), ("GET", "/a%2Fb"), ("GET", "/a;b")]
            .map(|(method, path)| request(method, path))
    };
    assert_eq!(statuses(&limited(None), requests()).await, [200, 429, 400, 400, 400]);
    let rules = RequestRules::default().keep_encoded_slashes();
    let rules = rules.path_parameters(PathParameters::Keep);
    assert_eq!(statuses(&limited(Some(rules)), requests()).await, [200, 429, 400, 200, 200]);
}

#[tokio::test]
async fn attack_04_05_and_10_fields_tokens_and_hosts_are_read_as_everywhere() {
    let by_key = "policies: [{ name: a, key: [api_key], limits: [1/day] }]";
    let fields = [
        ("authorization", "Bearer tok"),
        ("authorization", "bearer tok"),
        ("authorization", "Bearer\ttok"),
        ("authorization", "Bearer a b"),
        ("x_api_key", "tok"),
    ];
    assert_eq!(asked(by_key, fields).await, [200, 429, 401, 401, 400]);
    let by_host = "policies: [{ name: a, key: [host], limits: [1/day] }]";
    let hosts = [("host", "a.example"), ("host", "A.example.:80"), ("host", "a..example")];
    assert_eq!(asked(by_host, hosts).await, [200, 429, 400]);
    let app = app(RateLimitLayer::limiter(planned(by_host)));
    assert_eq!(statuses(&app, [get_from("::1")]).await, [400], "no host at all");
}

#[tokio::test]
async fn attack_17_odd_cookies_are_refused() {
    let text = "policies: [{ name: a, key: ['cookie:sid'], limits: [1/day] }]";
    let fields = [("cookie", "sid=abc"), ("cookie", "sid=%61bc"), ("cookie", "sid=\"abc\"")];
    assert_eq!(asked(text, fields).await, [200, 429, 400]);
    let lenient = format!("http: {{ requests: {{ odd_cookies: keep }} }}\n{text}");
    assert_eq!(asked(&lenient, fields).await, [200, 200, 200]);
}
