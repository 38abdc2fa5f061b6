//! What a layer adds to a request, beside tower_governor.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use tidegate_tower::{Key, RateLimitLayer};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::stopwatch::Stopwatch;
use crate::table;

/// A service that does nothing.
#[derive(Clone, Copy)]
struct Hello;

impl Service<Request<Body>> for Hello {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        black_box(request);
        ready(Ok(Response::new(Body::empty())))
    }
}

/// Nanoseconds for a request, in one round.
type Round = Box<dyn FnMut() -> f64>;

/// The same requests through the bare service and through each layer, by turns.
pub(crate) fn compare(rounds: usize, requests: usize) -> anyhow::Result<()> {
    // The same bucket, which neither empties nor fills up between two requests.
    let ours = RateLimitLayer::new("2/second burst 100000000")?.by(Key::client_ip().trust_hops(0));
    let denying = RateLimitLayer::new("1/day")?.by(Key::everybody());
    let mut governor = GovernorConfigBuilder::default();
    governor.per_millisecond(500).burst_size(100_000_000);
    let plain = governor.finish().ok_or_else(|| anyhow::anyhow!("no quota"))?;
    let headers = governor.use_headers().finish();
    let headers = headers.ok_or_else(|| anyhow::anyhow!("no quota"))?;
    let mut contestants: Vec<(&str, Round)> = vec![
        ("no layer", round(Hello, requests)),
        ("tidegate, without fields", round(ours.clone().without_fields().layer(Hello), requests)),
        (
            "tidegate, without fields and decision",
            round(ours.clone().without_fields().without_decision().layer(Hello), requests),
        ),
        (
            "tower_governor, without headers",
            round(GovernorLayer::new(plain).layer(Hello), requests),
        ),
        ("tidegate, with fields", round(ours.clone().layer(Hello), requests)),
        (
            "tidegate, with fields, without decision",
            round(ours.without_decision().layer(Hello), requests),
        ),
        ("tower_governor, with headers", round(GovernorLayer::new(headers).layer(Hello), requests)),
        ("tidegate, denied", round(denying.layer(Hello), requests)),
    ];
    let mut samples = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for ((_, round), samples) in contestants.iter_mut().zip(&mut samples) {
            samples.push(round());
        }
    }
    let medians: Vec<f64> = samples.into_iter().map(median).collect();
    let bare = medians.first().copied().unwrap_or_default();
    let rows = contestants.iter().zip(&medians).map(|((name, _), nanos)| {
        vec![(*name).to_owned(), format!("{nanos:.0}"), format!("{:.0}", nanos - bare)]
    });
    let header = ["", "ns a request", "of it the layer's"].map(str::to_owned);
    table::print("A request through a layer", &header, &rows.collect::<Vec<_>>());
    Ok(())
}

fn round<S, R>(mut service: S, requests: usize) -> Round
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + 'static,
{
    Box::new(move || {
        let watch = Stopwatch::start();
        for n in 0..requests {
            let mut future = pin!(service.call(request(n)));
            let mut context = Context::from_waker(Waker::noop());
            let _ = black_box(future.as_mut().poll(&mut context));
        }
        watch.nanos() / requests as f64
    })
}

/// From one of a thousand addresses, as axum's server hands it on.
fn request(n: usize) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + (n % 1_000) as u32));
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(address, 80)));
    request
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}
