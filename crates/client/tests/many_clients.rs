//! Many clients and one limited server, over HTTP, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]
#![allow(clippy::float_arithmetic, reason = "statistics are not decisions")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate::{AlgorithmKind, Clock, Limiter, MemoryStore, Timestamp};
use tidegate_client::PoliteLayer;
use tidegate_tower::{RateLimitLayer, RequestKey};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};

const CLIENTS: u64 = 50;
const CALLS: u64 = 100;
/// A hundred in ten seconds: 5,000 calls take at least 490.
const WINDOW: Duration = Duration::from_secs(10);
const IDEAL: Duration = Duration::from_secs(490);
/// A tenth of the spread, which is a quarter of the window.
const BIN: Duration = Duration::from_millis(250);

/// Tokio's time, which stands still while any task runs.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_000_000_000) + self.0.elapsed().into()
    }
}

/// What the server saw of one client: when it sent requests, and the responses.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: Duration,
    told: Option<Duration>,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// An HTTP/1 connection to a limited server, which records the responses.
async fn connect(
    layer: &RateLimitLayer,
    start: Instant,
    log: &Log,
) -> impl Service<
    Request<Empty<Bytes>>,
    Response = Response<Incoming>,
    Error = hyper::Error,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let hello = service_fn(|_: Request<Incoming>| async {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("hello"))))
    });
    let (limited, log) = (layer.layer(hello), Arc::clone(log));
    let watched = service_fn(move |request| {
        let (limited, log, at) = (limited.clone(), Arc::clone(&log), start.elapsed());
        async move {
            let response = limited.oneshot(request).await?;
            let told = response.headers().get("retry-after").and_then(|it| it.to_str().ok());
            let told = told.map(|it| at + Duration::from_secs(it.parse().unwrap()));
            log.lock().unwrap().push(Seen { at, told });
            Ok::<_, Infallible>(response)
        }
    });
    let (ours, theirs) = tokio::io::duplex(4_096);
    let server = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(watched));
    tokio::spawn(server);
    let (client, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::spawn(connection);
    let client = Arc::new(tokio::sync::Mutex::new(client));
    service_fn(move |request| {
        let client = Arc::clone(&client);
        async move {
            let mut client = client.lock().await;
            client.ready().await?;
            client.send_request(request).await
        }
    })
}

/// Lets all clients make all their calls. Returns how long that took, and what the server saw of each.
async fn crowd(algorithm: AlgorithmKind, limit: &str) -> (Duration, Vec<Vec<Seen>>) {
    let start = Instant::now();
    let store = MemoryStore::builder().clock(TokioClock(start)).build();
    let limiter = Limiter::builder().algorithm(algorithm).limit(limit).store(store);
    let layer = RateLimitLayer::limiter(limiter.build().unwrap()).by(RequestKey::everybody());
    let logs: Vec<Log> = (0..CLIENTS).map(|_| Log::default()).collect();
    let mut clients = tokio::task::JoinSet::new();
    for (seed, log) in (0..).zip(&logs) {
        let polite = PoliteLayer::new().seed(seed).max_retries(100).max_wait(IDEAL);
        let client = polite.layer(connect(&layer, start, log).await);
        clients.spawn(async move {
            for _ in 0..CALLS {
                let request = Request::get("http://a/").body(Empty::new()).unwrap();
                assert_eq!(client.clone().oneshot(request).await.unwrap().status(), 200);
            }
        });
    }
    clients.join_all().await;
    let taken = start.elapsed();
    (taken, logs.iter().map(|log| log.lock().unwrap().clone()).collect())
}

fn refusals(seen: &[Vec<Seen>]) -> usize {
    seen.iter().flatten().filter(|seen| seen.told.is_some()).count()
}

/// No client returns earlier than its `Retry-After`.
fn assert_nobody_is_early(seen: &[Vec<Seen>]) {
    for client in seen {
        let mut not_before = Duration::ZERO;
        for Seen { at, told } in client {
            assert!(*at >= not_before, "at {at:?} instead of {not_before:?}");
            not_before = told.unwrap_or(not_before);
        }
    }
}

fn within_a_tenth_of_the_ideal(taken: Duration) -> bool {
    taken >= IDEAL && taken <= IDEAL + IDEAL / 10
}

async fn all_calls_succeed(algorithm: AlgorithmKind, limit: &str) -> Vec<Vec<Seen>> {
    let (taken, seen) = crowd(algorithm, limit).await;
    let (refused, calls) = (refusals(&seen), CLIENTS * CALLS);
    println!("{algorithm:?}: {calls} calls in {taken:?} of {IDEAL:?}, {refused} refusals");
    assert_nobody_is_early(&seen);
    assert!(within_a_tenth_of_the_ideal(taken), "{taken:?}");
    seen
}

#[tokio::test(start_paused = true)]
async fn fifty_clients_share_fixed_windows() {
    let seen = all_calls_succeed(AlgorithmKind::FixedWindow, "100/10s").await;
    let edge = |back: Seen, _| Duration::from_millis((back.at.as_millis() % 10_000) as u64);
    let after_the_edge = waits(&seen, edge);
    print_histogram("retries after a window's edge", BIN, &after_the_edge);
    // `Retry-After` is in whole seconds, rounded up, so few clients return in the first second.
    let mean = after_the_edge.iter().sum::<u32>() / 10;
    assert!(after_the_edge.iter().all(|count| *count < 3 * mean / 2), "{after_the_edge:?}");
    let after_being_told = waits(&seen, |back, told| back.at - told);
    print_histogram("retries after the time they were told", BIN, &after_being_told);
    assert_flat(&after_being_told);
}

/// The delays of returns after a refusal, measured from a reference time.
fn waits(seen: &[Vec<Seen>], later: impl Fn(Seen, Duration) -> Duration) -> [u32; 10] {
    let mut bins = [0; 10];
    for pair in seen.iter().flat_map(|client| client.windows(2)) {
        let Some(told) = pair[0].told else { continue };
        let beyond = later(pair[1], told).as_millis() / BIN.as_millis();
        if let Some(bin) = bins.get_mut(beyond as usize) {
            *bin += 1;
        }
    }
    bins
}

#[tokio::test(start_paused = true)]
async fn fifty_clients_share_a_bucket() {
    all_calls_succeed(AlgorithmKind::TokenBucket, "100/10s burst 100").await;
}

#[tokio::test(start_paused = true)]
async fn fifty_clients_share_a_sliding_window() {
    all_calls_succeed(AlgorithmKind::SlidingWindow, "100/10s").await;
}

/// A thousand clients that are all refused at the same moment, with the same wait.
#[tokio::test(start_paused = true)]
async fn clients_that_were_refused_together_come_back_spread_out() {
    let start = Instant::now();
    let server = service_fn(move |_: Request<String>| async move {
        let is_open = start.elapsed() >= WINDOW;
        let response = Response::builder().status(if is_open { 200 } else { 429 });
        Ok::<_, Infallible>(response.header("retry-after", "10").body(()).unwrap())
    });
    let mut clients = tokio::task::JoinSet::new();
    for seed in 0..1_000 {
        let client = PoliteLayer::new().seed(seed).layer(server);
        clients.spawn(async move {
            let response = client.oneshot(Request::new(String::new())).await.unwrap();
            assert_eq!(response.status(), 200);
            start.elapsed() - WINDOW
        });
    }
    let mut bins = [0_u32; 10];
    for beyond in clients.join_all().await {
        bins[(beyond.as_millis() as usize / 250).min(9)] += 1;
    }
    print_histogram("a herd of 1,000 after 10 s", Duration::from_millis(250), &bins);
    // A hundred in each tenth; the chance to be this far off is 1 in 10^6.
    assert!(bins.iter().all(|count| (55..=145).contains(count)), "{bins:?}");
}

/// Each within a third of the mean, which is some standard deviations where there are hundreds.
fn assert_flat(bins: &[u32]) {
    let mean = bins.iter().sum::<u32>() / bins.len() as u32;
    let is_near = |count: &u32| count.abs_diff(mean) <= mean / 3;
    assert!(mean >= 60 && bins.iter().all(is_near), "{bins:?}");
}

fn print_histogram(title: &str, bin: Duration, bins: &[u32]) {
    println!("{title}, by {bin:?}:");
    let most = bins.iter().copied().max().unwrap_or(1).max(1);
    for (n, count) in (0..).zip(bins) {
        let bar = "#".repeat((count * 50 / most) as usize);
        println!("{:>8.2?} {count:>6} {bar}", bin * n);
    }
}
