//! The examples behave as documented.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

#[path = "../examples/adapter.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod adapter;
#[path = "../examples/application.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod application;
#[path = "../examples/login.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod login;
#[path = "../examples/tiers.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod tiers;

use std::path::Path;

use axum::body::Body;
use axum::http::{Method, Request};
use support::{from, get_from, statuses};
use tidegate::AnyStore;
use tidegate::tower::RateLimitLayer;

#[tokio::test]
async fn tiers_have_their_limits() {
    let app = tiers::app().unwrap();
    let as_user = |name: &str| {
        let mut request = get_from("203.0.113.9");
        request.headers_mut().insert("authorization", format!("Bearer {name}").parse().unwrap());
        request
    };
    let anonymous = || get_from("203.0.113.9");
    assert_eq!(statuses(&app, [(); 4].map(|()| anonymous())).await, [200, 200, 200, 429]);
    assert_eq!(
        statuses(&app, [(); 6].map(|()| as_user("bob"))).await,
        [200, 200, 200, 200, 200, 429]
    );
    assert_eq!(statuses(&app, [(); 9].map(|()| as_user("pro"))).await, [200; 9]);
    assert_eq!(statuses(&app, [get_from("203.0.113.10")]).await, [200]);
}

#[tokio::test]
async fn a_login_is_attempted_five_times() {
    let app = login::app().unwrap();
    let attempt = |password: &'static str| {
        let request: Request<Body> = from("203.0.113.9", "/login").map(|_| Body::from(password));
        let (mut head, body) = request.into_parts();
        head.method = Method::POST;
        Request::from_parts(head, body)
    };
    assert_eq!(statuses(&app, [(); 9].map(|()| attempt("correct horse"))).await, [200; 9]);
    let guesses = statuses(&app, [(); 7].map(|()| attempt("guess"))).await;
    assert_eq!(guesses, [401, 401, 401, 401, 401, 429, 429]);
    assert_eq!(statuses(&app, [get_from("203.0.113.9")]).await, [200], "is not limited");
}

fn post(path: &str, body: &'static str) -> Request<Body> {
    let (mut head, _) = from("203.0.113.9", path).into_parts();
    head.method = Method::POST;
    Request::from_parts(head, Body::from(body))
}

#[tokio::test]
async fn the_application_limits_users_logins_and_functions() {
    let store = AnyStore::open("memory", "").unwrap();
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/application.yaml");
    let app = application::app(&store, &policies).unwrap();
    let as_user = |name: &'static str, path: &str| {
        let mut request = from("203.0.113.9", path);
        request.headers_mut().insert("x-user", name.parse().unwrap());
        request
    };
    // A report costs four units of five.
    let paths = ["/report", "/", "/"];
    assert_eq!(statuses(&app, paths.map(|path| as_user("alice", path))).await, [200, 200, 429]);
    assert_eq!(
        statuses(&app, [(); 6].map(|()| as_user("pro bob", "/report"))).await,
        [200, 200, 200, 200, 200, 429]
    );
    // Wrong passwords count, and right ones do not.
    let attempts = ["guess", "correct horse", "guess", "guess", "guess"];
    assert_eq!(
        statuses(&app, attempts.map(|password| post("/login", password))).await,
        [401, 200, 401, 401, 429]
    );
    let mails = [(); 3].map(|()| post("/mails", "carol"));
    assert_eq!(statuses(&app, mails).await, [200, 200, 429]);
    // What a call costs depends on the text.
    let long: &'static str = Box::leak("x".repeat(60).into_boxed_str());
    assert_eq!(statuses(&app, [(); 2].map(|()| post("/hash", long))).await, [200, 429]);
}

#[tokio::test]
async fn a_framework_without_tower_has_the_same_layer() {
    let limit = RateLimitLayer::new("1/day").unwrap();
    let send = async || {
        let request = adapter::FrameworkRequest {
            method: "GET",
            path: "/",
            peer: [203, 0, 113, 9].into(),
            headers: Vec::new(),
        };
        let hello = async |_: &adapter::FrameworkRequest| adapter::FrameworkResponse {
            status: 200,
            headers: Vec::new(),
            body: b"hello".to_vec(),
        };
        adapter::limited(&limit, request, hello).await.unwrap()
    };
    let allowed = send().await;
    assert_eq!((allowed.status, &*allowed.body), (200, &b"hello"[..]));
    assert!(allowed.headers.iter().any(|(name, _)| name == "ratelimit"));
    let denied = send().await;
    assert_eq!(denied.status, 429);
    assert!(denied.headers.iter().any(|(name, _)| name == "retry-after"));
}
