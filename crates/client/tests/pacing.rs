//! One client and a scripted server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use tidegate_client::{
    AdaptiveThrottle, ClientEvent, GiveUpReason, PoliteError, PoliteLayer, RetryBudget,
};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use support::{Server, heard, line};

#[tokio::test(start_paused = true)]
async fn it_waits_as_long_as_told_and_a_little_more() {
    let server = Server::new([line(429, &[("retry-after", "20")]), line(200, &[])]);
    assert_eq!(server.client(PoliteLayer::new()).get().await, Ok(200));
    let times = server.times();
    assert!(times[0] == 0 && (20_000..=25_001).contains(&times[1]), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_one_call_delays_all_calls() {
    let server = Server::new([line(429, &[("retry-after", "20")]), line(200, &[])]);
    let client = server.client(PoliteLayer::new());
    let mut calls = tokio::task::JoinSet::new();
    for wait in [0, 1, 5, 19] {
        let client = client.clone();
        calls.spawn(async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            client.get().await
        });
    }
    assert!(calls.join_all().await.into_iter().all(|answer| answer == Ok(200)));
    assert!(server.times()[1..].iter().all(|time| *time >= 20_000), "{:?}", server.times());
}

#[tokio::test(start_paused = true)]
async fn without_advice_it_waits_for_longer_each_time() {
    let server = Server::new([line(503, &[])]);
    let (layer, events) = heard(PoliteLayer::new());
    assert_eq!(server.client(layer).get().await, Ok(503));
    assert_eq!(server.times().len(), 6);
    let events = events.lock().unwrap();
    let waits = events.iter().filter_map(|event| match event {
        ClientEvent::Retrying { wait, .. } => Some(wait.as_millis()),
        _ => None,
    });
    for (wait, most) in waits.zip([100, 200, 400, 800, 1_600]) {
        assert!(wait <= most, "{wait} of {most}");
    }
    assert_eq!(
        events.last(),
        Some(&ClientEvent::GaveUp { attempt: 6, why: GiveUpReason::Attempts })
    );
}

#[tokio::test(start_paused = true)]
async fn only_idempotent_requests_are_retried() {
    for (method, times) in [
        (Method::GET, 2),
        (Method::HEAD, 2),
        (Method::PUT, 2),
        (Method::DELETE, 2),
        (Method::POST, 1),
        (Method::PATCH, 1),
    ] {
        let server = Server::new([line(429, &[("retry-after", "1")]), line(200, &[])]);
        let status = server.client(PoliteLayer::new()).send(method.clone(), "").await.unwrap();
        assert_eq!((server.times().len(), status == 200), (times, times == 2), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_are_repeated_where_that_is_possible() {
    let script = || [line(429, &[("retry-after", "1")]), line(200, &[])];
    let server = Server::new(script());
    assert_eq!(server.client(PoliteLayer::new()).send(Method::PUT, "text").await, Ok(429));
    let server = Server::new(script());
    let client = server.client(PoliteLayer::new().clone_bodies());
    assert_eq!(client.send(Method::PUT, "text").await, Ok(200));
    assert_eq!(server.bodies(), ["text", "text"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_is_not_begun() {
    let server = Server::new([line(429, &[("retry-after", "3600")])]);
    let client = server.client(PoliteLayer::new());
    let start = Instant::now();
    assert_eq!(client.get().await, Ok(429));
    // The next one is not even sent.
    let Err(PoliteError::TooEarly(wait)) = client.get().await else { panic!("was sent") };
    assert!(wait >= Duration::from_secs(3_600));
    assert_eq!((server.times().len(), start.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_budget_bounds_uninvited_retries_of_all_calls() {
    let server = Server::new([line(503, &[])]);
    let client = server.client(PoliteLayer::new().budget(RetryBudget::new(50, 3)));
    for _ in 0..10 {
        assert_eq!(client.get().await, Ok(503));
    }
    // Ten calls, three initial retries, and one for every two calls.
    assert!((15..=18).contains(&server.times().len()), "{:?}", server.times());
    let server = Server::new([line(429, &[("retry-after", "1")])]);
    let client = server.client(PoliteLayer::new().budget(RetryBudget::new(0, 0)).max_retries(3));
    assert_eq!(client.get().await, Ok(429));
    assert_eq!(server.times().len(), 4, "invited ones are free");
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_of_zero_is_not_an_invitation() {
    for told in ["0", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let server = Server::new([line(429, &[("retry-after", told)])]);
        let client = server.client(PoliteLayer::new());
        for _ in 0..100 {
            assert_eq!(client.get().await, Ok(429));
        }
        let times = server.times();
        // Ten initial retries, and one for five calls; none of them immediately.
        assert!((110..=130).contains(&times.len()), "{told}: {}", times.len());
        assert!(times.last() > Some(&1_000), "{told}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_slows_down_before_it_is_refused() {
    let fields =
        |state| line(200, &[("ratelimit-policy", r#""p";q=100;w=100"#), ("ratelimit", state)]);
    let states = [r#""p";r=80;t=100"#, r#""p";r=20;t=30"#, r#""p";r=0;t=10"#, r#""p";r=99;t=100"#];
    let server = Server::new(states.map(fields));
    let client = server.client(PoliteLayer::new());
    for _ in 0..5 {
        assert_eq!(client.get().await, Ok(200));
    }
    let times = server.times();
    // 80 are plenty; 20 for 30 s are one a second, the policy's rate; 0 means the end of the window,
    // and then all clients return within a quarter of one.
    assert_eq!(times[..3], [0, 0, 1_000]);
    assert!((11_000..=36_001).contains(&times[3]), "{times:?}");
    assert_eq!(times[4], times[3]);

    let server = Server::new(states.map(fields));
    let client = server.client(PoliteLayer::new().without_pacing());
    for _ in 0..5 {
        assert_eq!(client.get().await, Ok(200));
    }
    assert_eq!(server.times(), [0; 5]);
}

/// 4 of 10 for ten seconds: one a second.
const HALF_USED: &[(&str, &str)] =
    &[("ratelimit-policy", r#""p";q=10;w=10"#), ("ratelimit", r#""p";r=4;t=10"#)];

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_too_far_away_fails_no_call() {
    let daily =
        [("ratelimit-policy", r#""p";q=100;w=86400"#), ("ratelimit", r#""p";r=40;t=80000"#)];
    let server = Server::new([line(200, &daily)]);
    let client = server.client(PoliteLayer::new());
    for _ in 0..50 {
        assert_eq!(client.get().await, Ok(200));
    }
    // But not as fast as possible.
    let taken = server.times()[49];
    assert!((10_000..=49_000).contains(&taken), "{taken}");

    let server = Server::new([line(200, HALF_USED)]);
    let client = server.client(PoliteLayer::new().max_wait(Duration::from_millis(1_500)));
    assert_eq!(client.get().await, Ok(200));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let client = client.clone();
        calls.spawn(async move { client.get().await });
    }
    assert!(calls.join_all().await.into_iter().all(|answer| answer == Ok(200)));
    // Calls that were sent without a turn do not delay others.
    let start = Instant::now();
    for _ in 0..10 {
        assert_eq!(client.get().await, Ok(200));
    }
    assert_eq!(start.elapsed().as_secs(), 10);
}

/// Five in ten seconds, and a thousand a day of which most are left.
#[tokio::test(start_paused = true)]
async fn of_several_limits_the_one_that_is_short_is_heeded() {
    let window = Duration::from_secs(10);
    let state = Arc::new(Mutex::new((Instant::now(), 0_u64, 0)));
    let counts = Arc::clone(&state);
    let service = service_fn(move |_: Request<String>| {
        let mut state = counts.lock().unwrap();
        let (start, used, refused) = &mut *state;
        if start.elapsed() >= window {
            (*start, *used) = (Instant::now(), 0);
        }
        let (is_full, t) = (*used == 5, (window - start.elapsed()).as_secs().max(1));
        if is_full {
            *refused += 1;
        } else {
            *used += 1;
        }
        let r = 5 - *used;
        let response = Response::builder()
            .status(if is_full { 429 } else { 200 })
            .header("ratelimit-policy", r#""burst";q=5;w=10, "daily";q=1000;w=86400"#)
            .header("ratelimit", format!(r#""burst";r={r};t={t}, "daily";r=900;t=80000"#))
            .header("retry-after", t);
        std::future::ready(Ok::<_, Infallible>(response.body(()).unwrap()))
    });
    let client = PoliteLayer::new().seed(7).layer(service);
    for _ in 0..30 {
        let request = Request::get("http://a/").body(String::new()).unwrap();
        assert_eq!(client.clone().oneshot(request).await.unwrap().status(), 200);
    }
    assert_eq!(state.lock().unwrap().2, 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_leave_no_gap_in_the_schedule() {
    let server = Server::new([line(200, HALF_USED)]);
    let client = server.client(PoliteLayer::new());
    assert_eq!(client.get().await, Ok(200));
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let client = client.clone();
        calls.spawn(async move { client.get().await });
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    calls.shutdown().await;
    assert_eq!(client.get().await, Ok(200));
    assert_eq!(server.times(), [0, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn hosts_have_separate_limits_by_default() {
    let server = Server::new([line(429, &[("retry-after", "50")]), line(200, &[])]);
    let request = |host: &str| Request::get(format!("http://{host}/")).body(String::new()).unwrap();
    let service = server.client(PoliteLayer::new().max_retries(0)).0;
    assert_eq!(service.clone().oneshot(request("a")).await.unwrap().status(), 429);
    assert_eq!(service.clone().oneshot(request("b")).await.unwrap().status(), 200);
    assert_eq!(server.times(), [0, 0]);
    let server = Server::new([line(429, &[("retry-after", "50")]), line(200, &[])]);
    let layer = PoliteLayer::new().max_retries(0).scope(|_| "all".to_owned());
    let service = server.client(layer).0;
    let _ = service.clone().oneshot(request("a")).await.unwrap();
    let _ = service.oneshot(request("b")).await.unwrap();
    assert!(server.times()[1] >= 50_000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_most_calls_is_throttled() {
    let server = Server::new([line(503, &[])]);
    let layer = PoliteLayer::new().max_retries(0).throttle(AdaptiveThrottle::default());
    let client = server.client(layer);
    let mut throttled = 0;
    for _ in 0..200 {
        throttled += u32::from(client.get().await == Err(PoliteError::Throttled));
    }
    assert!(throttled > 180 && server.times().len() < 20, "{throttled}");
}
