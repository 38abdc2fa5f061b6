//! The layer in axum: which requests pass, and what clients and handlers see.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::{Request, Response, StatusCode};
use axum::routing::{get, post};
use http_body_util::BodyExt;
use support::{from, get_from, limiter, statuses};
use tidegate::{Decision, Limiter, ManualClock, MemoryStore, Span, Timestamp};
use tidegate_tower::{RateLimitDecision, RateLimitLayer, RequestKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

fn hello(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

/// tower's own layer needs a buffer here, and then lets all of them through.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_1500_concurrent_requests_five_pass() {
    let (limiter, clock) = limiter("5/second");
    let app = hello(RateLimitLayer::limiter(limiter).by(RequestKey::everybody()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    for round in 0..3 {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..1_500 {
            tasks.spawn(async move {
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                let request = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
                stream.write_all(request).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                answer.starts_with("HTTP/1.1 200")
            });
        }
        let passed = tasks.join_all().await.into_iter().filter(|passed| *passed).count();
        assert_eq!(passed, 5, "in round {round}");
        // After two windows the first one has no weight left.
        clock.advance(Span::from_secs(2));
    }
}

#[tokio::test]
async fn both_outcomes_are_described() {
    let (limiter, _clock) = limiter("2/minute burst 2");
    let app = hello(RateLimitLayer::limiter(limiter));
    let allowed = app.clone().oneshot(get_from("203.0.113.9")).await.unwrap();
    assert_eq!(allowed.status(), 200);
    assert_eq!(allowed.headers()["ratelimit-policy"], r#""default";q=2;w=60"#);
    assert_eq!(allowed.headers()["ratelimit"], r#""default";r=1;t=30"#);
    assert!(!allowed.headers().contains_key("retry-after"));
    let body = allowed.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "hello");

    let _ = app.clone().oneshot(get_from("203.0.113.9")).await.unwrap();
    let denied = app.clone().oneshot(get_from("203.0.113.9")).await.unwrap();
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(denied.headers()["content-type"], "application/problem+json");
    assert_eq!(denied.headers()["retry-after"], "30");
    assert_eq!(denied.headers()["ratelimit"], r#""default";r=0;t=30"#);
    let body = denied.into_body().collect().await.unwrap().to_bytes();
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["violated-policies"][0], "default");
    assert_eq!(problem["retry_after_ms"], 30_000);
    assert_eq!(app.oneshot(get_from("203.0.113.10")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_quota_that_is_none_is_an_error() {
    let error = RateLimitLayer::new("100/minit").unwrap_err();
    assert!(error.to_string().contains(r#"unknown unit "minit""#), "{error}");
}

#[tokio::test]
async fn clones_and_routes_share_their_counters() {
    let layer = RateLimitLayer::new("2/day").unwrap();
    let app = Router::new()
        .route("/a", get(|| async { "a" }))
        .route("/b", get(|| async { "b" }))
        .layer(layer.clone());
    let other = hello(layer);
    assert_eq!(statuses(&app, [from("::1", "/a"), from("::1", "/b")]).await, [200, 200]);
    assert_eq!(statuses(&other, [from("::1", "/")]).await, [429]);
}

#[tokio::test]
async fn a_route_layer_limits_by_template_and_leaves_404s_alone() {
    let (limiter, _clock) = limiter("1/minute");
    let layer = RateLimitLayer::limiter(limiter).by(RequestKey::path_template());
    let app = Router::new()
        .route("/users/{id}", get(|| async { "user" }))
        .route("/posts/{id}", get(|| async { "post" }))
        .route_layer(layer);
    let paths = ["/nowhere", "/users/1", "/users/2", "/posts/1", "/nowhere"];
    let requests = paths.map(|path| from("::1", path));
    assert_eq!(statuses(&app, requests).await, [404, 200, 429, 200, 404]);
}

#[tokio::test]
async fn handlers_see_the_decision() {
    let app = Router::new()
        .route(
            "/",
            get(|RateLimitDecision(decision): RateLimitDecision| async move {
                decision.remaining().unwrap().to_string()
            }),
        )
        .route(
            "/plain",
            get(|request: axum::extract::Request| async move {
                request.extensions().get::<Decision>().unwrap().limit().unwrap().to_string()
            }),
        )
        .route(
            "/skipped",
            get(|decided: Option<RateLimitDecision>| async move { decided.is_some().to_string() }),
        )
        .layer(RateLimitLayer::new("9/day").unwrap().skip(|head| head.uri().path() == "/skipped"));
    let text = async |path: &str| {
        let response = app.clone().oneshot(from("::1", path)).await.unwrap();
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec())
            .unwrap()
    };
    assert_eq!((text("/").await, text("/plain").await), ("8".to_owned(), "9".to_owned()));
    assert_eq!(text("/skipped").await, "true");
    let unlimited = Router::new().route("/", get(|_: RateLimitDecision| async { "never" }));
    assert_eq!(statuses(&unlimited, [from("::1", "/")]).await, [500]);
}

#[tokio::test]
async fn costs_are_taken_whole_or_not_at_all() {
    let layer = RateLimitLayer::new("10/day").unwrap().cost(|head| {
        head.header("x-cost")
            .and_then(|cost| std::str::from_utf8(cost).ok()?.parse().ok())
            .unwrap_or(1)
    });
    let app = hello(layer);
    let costing = |cost: &str| {
        let mut request = get_from("::1");
        request.headers_mut().insert("x-cost", cost.parse().unwrap());
        request
    };
    let costs = ["6", "5", "4", "1", "0"].map(costing);
    assert_eq!(statuses(&app, costs).await, [200, 429, 200, 429, 200]);
    let hopeless = app.oneshot(costing(&u64::MAX.to_string())).await.unwrap();
    assert_eq!(hopeless.status(), 429);
    assert!(!hopeless.headers().contains_key("retry-after"));
}

#[tokio::test]
async fn a_shadow_watches_and_says_nothing() {
    let would_deny = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&would_deny);
    let layer = RateLimitLayer::new("1/day").unwrap().shadow().observe(move |_, decision| {
        count.fetch_add(usize::from(!decision.is_allowed()), Ordering::Relaxed);
    });
    let app = hello(layer);
    for _ in 0..3 {
        let response = app.clone().oneshot(get_from("::1")).await.unwrap();
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("ratelimit"));
    }
    assert_eq!(would_deny.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_shadow_gives_nothing_back_that_it_did_not_take() {
    let (limiter, _) = limiter("1/day");
    let layer = RateLimitLayer::limiter(Arc::clone(&limiter)).by(RequestKey::everybody());
    let app = hello(layer.shadow().count_failures());
    // The quota was used up before; observed requests take nothing.
    assert!(limiter.check_now(&tidegate::OwnedKey::default()).is_allowed());
    assert_eq!(statuses(&app, [get_from("::1"), get_from("::1")]).await, [200, 200]);
    assert_eq!(limiter.peek_now(&tidegate::OwnedKey::default()).remaining(), Some(0));
}

#[tokio::test]
async fn a_request_that_is_not_limited_has_a_decision_that_says_so() {
    let source = |RateLimitDecision(decision): RateLimitDecision| async move {
        decision.source().to_string()
    };
    let layer = RateLimitLayer::new("1/day").unwrap().skip(|_| true);
    let app = Router::new().route("/", get(source)).layer(layer);
    let response = app.oneshot(get_from("::1")).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "none");
}

#[test]
fn layers_that_make_empty_bodies_may_stand_around_it() {
    fn makes_bodies<T: Default>() {}
    makes_bodies::<tidegate_tower::ResponseBody<axum::body::Body>>();
}

#[tokio::test]
async fn denials_can_be_told_otherwise() {
    let layer = RateLimitLayer::new("1/day").unwrap().on_denied(|denial| {
        let mut response = Response::new(denial.head().uri().path().to_owned());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    let app = hello(layer);
    assert_eq!(statuses(&app, [get_from("::1")]).await, [200]);
    let denied = app.oneshot(get_from("::1")).await.unwrap();
    assert_eq!(denied.status(), 503);
    assert!(denied.headers().contains_key("retry-after"));
    assert_eq!(denied.into_body().collect().await.unwrap().to_bytes(), "/");
}

#[tokio::test]
async fn fields_can_be_left_out_and_two_layers_both_speak() {
    let silent = hello(RateLimitLayer::new("1/day").unwrap().without_fields());
    let response = silent.clone().oneshot(get_from("::1")).await.unwrap();
    assert!(!response.headers().contains_key("ratelimit"));
    let response = silent.oneshot(get_from("::1")).await.unwrap();
    assert!(response.headers().contains_key("retry-after"));
    assert!(!response.headers().contains_key("ratelimit"));

    let named = |name: &str, limit: &str| {
        RateLimitLayer::limiter(Limiter::builder().name(name).limit(limit).build().unwrap())
    };
    let app = hello(named("inner", "5/day")).layer(named("outer", "7/day"));
    let response = app.oneshot(get_from("::1")).await.unwrap();
    let fields: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    assert_eq!(fields.len(), 2, "{fields:?}");
}

#[tokio::test]
async fn the_decision_can_be_left_out() {
    let has_decision = |request: axum::extract::Request| async move {
        request.extensions().get::<tidegate::Decision>().is_some().to_string()
    };
    for (layer, expected) in [
        (RateLimitLayer::new("1/day").unwrap(), "true"),
        (RateLimitLayer::new("1/day").unwrap().without_decision(), "false"),
    ] {
        let app = Router::new().route("/", get(has_decision)).layer(layer);
        let response = app.clone().oneshot(get_from("::1")).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), expected);
        assert_eq!(statuses(&app, [get_from("::1")]).await, [429]);
    }
}

#[tokio::test]
async fn only_failures_count_and_nobody_gets_more_tries_by_hurrying() {
    let (limiter, _clock) = limiter("3/minute");
    let app = Router::new()
        .route(
            "/login",
            post(|password: String| async move {
                tokio::task::yield_now().await;
                if password == "right" { StatusCode::OK } else { StatusCode::UNAUTHORIZED }
            }),
        )
        .layer(RateLimitLayer::limiter(limiter).count_failures());
    let attempt = |password: &'static str| {
        let mut request = from("203.0.113.9", "/login").map(|_| axum::body::Body::from(password));
        *request.method_mut() = axum::http::Method::POST;
        request
    };
    for _ in 0..10 {
        assert_eq!(statuses(&app, [attempt("right")]).await, [200]);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        tasks.spawn(app.clone().oneshot(attempt("wrong")));
    }
    let answers = tasks.join_all().await;
    let tries = answers.iter().filter(|answer| answer.as_ref().unwrap().status() == 401);
    assert_eq!(tries.count(), 3);
    // The right password does not pass any more either: the address is blocked.
    assert_eq!(statuses(&app, [attempt("right")]).await, [429]);
}

#[tokio::test]
async fn readiness_of_the_inner_service_is_respected() {
    // This service panics when it is called before it is ready, as one with permits would.
    let inner = tower::service_fn(|_: Request<String>| async {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    });
    let strict = support::Strict::new(inner);
    let plan = "policies: [{ name: all, key: [], limits: [2/day] }]";
    let source = tidegate::config::PolicySource::new("test", plan).unwrap();
    let planned = tidegate::PlanLimiter::load(&source, MemoryStore::new()).unwrap();
    for layer in [RateLimitLayer::new("2/day").unwrap(), RateLimitLayer::limiter(planned)] {
        let mut service = tower::Layer::layer(&layer, strict.clone());
        let mut answers = Vec::new();
        for _ in 0..4 {
            let ready = service.ready().await.unwrap();
            answers.push(
                tower::Service::call(ready, Request::new(String::new()))
                    .await
                    .unwrap()
                    .status()
                    .as_u16(),
            );
        }
        assert_eq!(answers, [200, 200, 429, 429]);
    }
}

#[tokio::test]
async fn a_manual_clock_moves_the_limit() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::builder().limit("1/minute burst 1").store(store).build().unwrap();
    let app = hello(RateLimitLayer::limiter(limiter));
    assert_eq!(statuses(&app, [get_from("::1"), get_from("::1")]).await, [200, 429]);
    clock.advance(Span::from_secs(60));
    assert_eq!(statuses(&app, [get_from("::1")]).await, [200]);
}
