//! The examples behave as documented.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

#[path = "../examples/login.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod login;
#[path = "../examples/tiers.rs"]
#[allow(dead_code, reason = "an example has a main")]
mod tiers;

use axum::body::Body;
use axum::http::{Method, Request};
use support::{from, get_from, statuses};

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
