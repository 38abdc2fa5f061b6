//! Measures the time that a tower layer adds to a request: our layer beside tower_governor's.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use tidegate_tower::{RateLimitLayer, RequestKey};
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::figures::Figures;
use crate::stopwatch::Stopwatch;
use crate::table;

/// The service inside the layers. It does nothing.
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

/// Runs one round of requests, and returns the nanoseconds per request.
type Round = Box<dyn FnMut() -> f64>;

/// Sends the same requests through the bare service and through each layer whose name contains
/// `only`, in turn.
pub(crate) fn compare(
    rounds: usize,
    requests: usize,
    only: &str,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut contestants = vec![("no layer", round(Hello, requests))];
    contestants.extend(ours(requests)?.into_iter().chain(theirs(requests)?));
    contestants.retain(|(name, _)| *name == "no layer" || name.contains(only));
    let mut samples = vec![Vec::new(); contestants.len()];
    for _ in 0..rounds {
        for ((_, round), samples) in contestants.iter_mut().zip(&mut samples) {
            samples.push(round());
        }
    }
    let medians: Vec<f64> = samples.into_iter().map(median).collect();
    let bare = medians.first().copied().unwrap_or_default();
    let rows = contestants.iter().zip(&medians).map(|((name, _), nanos)| {
        figures.add(*name, "ns", nanos - bare, []);
        vec![(*name).to_owned(), format!("{nanos:.0}"), format!("{:.0}", nanos - bare)]
    });
    let header = ["", "ns a request", "of it the layer's"].map(str::to_owned);
    table::print("A request through a layer", &header, &rows.collect::<Vec<_>>());
    Ok(())
}

/// Layers by name.
type Contestants = Vec<(&'static str, Round)>;

fn ours(requests: usize) -> anyhow::Result<Contestants> {
    // A bucket that neither empties nor fills up between two requests.
    let layer =
        RateLimitLayer::new("2/second burst 100000000")?.by(RequestKey::client_ip().trust_hops(0));
    let denying = RateLimitLayer::new("1/day")?.by(RequestKey::client_ip().trust_hops(0));
    let measured = |layer: RateLimitLayer| round(layer.layer(Hello), requests);
    Ok(vec![
        ("tidegate, with fields and decision", measured(layer.clone())),
        ("tidegate, with fields", measured(layer.clone().without_decision())),
        ("tidegate, with decision", measured(layer.clone().without_fields())),
        ("tidegate, with neither", measured(layer.without_fields().without_decision())),
        ("tidegate, denied", measured(denying)),
    ])
}

fn theirs(requests: usize) -> anyhow::Result<Contestants> {
    let no_quota = || anyhow::anyhow!("no quota");
    let mut quota = GovernorConfigBuilder::default();
    quota.per_millisecond(500).burst_size(100_000_000);
    let plain = quota.finish().ok_or_else(no_quota)?;
    let headers = quota.use_headers().finish().ok_or_else(no_quota)?;
    let mut quota = GovernorConfigBuilder::default();
    quota.per_second(86_400).burst_size(1);
    let denying = quota.use_headers().finish().ok_or_else(no_quota)?;
    Ok(vec![
        ("tower_governor, with headers", round(GovernorLayer::new(headers).layer(Hello), requests)),
        ("tower_governor, without", round(GovernorLayer::new(plain).layer(Hello), requests)),
        ("tower_governor, denied", round(GovernorLayer::new(denying).layer(Hello), requests)),
    ])
}

/// The round of a service.
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

/// A request from one of a thousand addresses, as axum's server passes it on.
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
