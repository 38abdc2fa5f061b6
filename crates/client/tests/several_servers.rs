//! One client and several servers: the limits of one server do not apply to another.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use http::Request;
use tidegate_client::{AdaptiveThrottle, PoliteError, PoliteLayer};
use tower::util::BoxCloneSyncService;
use tower::{Layer, service_fn};

use support::{Answer, Client, Server, line};

const TOO_EARLY: Answer = Err(PoliteError::TooEarly(Duration::from_secs(600)));

/// Only the first request is refused, for ten minutes.
fn refused_once() -> Client {
    let server = Server::new([line(429, &[("retry-after", "600")]), line(200, &[])]);
    server.client(PoliteLayer::new())
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_name() {
    for (one, same) in [
        ("http://a.example/", "http://A.Example/x"),
        ("http://a.example/", "http://a.example:80/"),
        ("https://a.example/", "https://a.example:443/"),
        ("http://a.example/", "http://user:secret@a.example/"),
        ("http://[::1]:80/", "http://[::1]/"),
    ] {
        let client = refused_once();
        assert_eq!(client.get_from(one).await, Ok(429));
        assert_eq!(client.get_from(same).await, TOO_EARLY, "{one} and {same}");
    }
    for (one, other) in [
        ("http://a.example/", "https://a.example/"),
        ("http://a.example/", "http://a.example:8080/"),
        ("http://a.example/", "http://b.example/"),
    ] {
        let client = refused_once();
        assert_eq!(client.get_from(one).await, Ok(429));
        assert_eq!(client.get_from(other).await, Ok(200), "{one} and {other}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_authority_the_host_field_says_which_server() {
    let request = |host| Request::get("/").header("host", host).body(String::new()).unwrap();
    let client = refused_once();
    assert_eq!(client.request(request("a.example:8080")).await, Ok(429));
    assert_eq!(client.request(request("b.example:8080")).await, Ok(200));
    assert_eq!(client.request(request("A.example:8080")).await, TOO_EARLY);
    assert_eq!(client.get_from("http://a.example:8080/").await, TOO_EARLY);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_server_among_many_is_not_blocked_by_others() {
    let server = Server::new([line(429, &[("retry-after", "600")])]);
    let client = server.client(PoliteLayer::new());
    for n in 0..1_500 {
        assert_eq!(client.get_from(&format!("http://host-{n}/")).await, Ok(429), "{n}");
    }
    // The latest servers are known.
    assert_eq!(client.get_from("http://host-1499/").await, TOO_EARLY);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_spares_only_the_server_that_refuses() {
    let (bad, good) = (Server::new([line(503, &[])]), Server::new([line(200, &[])]));
    let (ours, theirs) = (bad.clone(), good.clone());
    let service = service_fn(move |request: Request<String>| {
        let is_bad = request.uri().host() == Some("bad");
        let response = if is_bad { ours.answer(request) } else { theirs.answer(request) };
        async move { Ok::<_, Infallible>(response) }
    });
    let layer = PoliteLayer::new().seed(7).max_retries(0).throttle(AdaptiveThrottle::default());
    let client = Client(BoxCloneSyncService::new(layer.layer(service)));
    for _ in 0..200 {
        let _ = client.get_from("http://bad/").await;
        assert_eq!(client.get_from("http://good/").await, Ok(200));
    }
    assert!(bad.times().len() < 20, "{}", bad.times().len());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_too_early_does_not_count_for_the_throttle() {
    let server =
        Server::new([line(200, &[]), line(429, &[("retry-after", "100")]), line(200, &[])]);
    let client = server.client(PoliteLayer::new().throttle(AdaptiveThrottle::default()));
    assert_eq!(client.get().await, Ok(200));
    assert_eq!(client.get().await, Ok(429));
    for _ in 0..100 {
        assert!(matches!(client.get().await, Err(PoliteError::TooEarly(_))));
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    for _ in 0..10 {
        assert_eq!(client.get().await, Ok(200));
    }
}
