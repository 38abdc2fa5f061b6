//! Helpers: requests with a peer address, and their responses.

#![allow(dead_code, reason = "not every test needs all of it")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use tidegate::{Limiter, ManualClock, MemoryStore, Timestamp};
use tower::{Service, ServiceExt};

/// A limiter with a frozen clock.
pub(crate) fn limiter(limit: &str) -> (Arc<Limiter<MemoryStore<ManualClock>>>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(Limiter::builder().limit(limit).store(store).build().unwrap()), clock)
}

/// A request as axum's server passes it on.
pub(crate) fn from(peer: &str, path: &str) -> Request<Body> {
    let mut request = Request::get(path).body(Body::empty()).unwrap();
    let ip: IpAddr = peer.parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(ip, 4711)));
    request
}

pub(crate) fn get_from(peer: &str) -> Request<Body> {
    from(peer, "/")
}

/// One after the other.
pub(crate) async fn statuses<const N: usize>(
    app: &Router,
    requests: [Request<Body>; N],
) -> [u16; N] {
    let mut statuses = [0; N];
    for (status, request) in statuses.iter_mut().zip(requests) {
        *status = app.clone().oneshot(request).await.unwrap().status().as_u16();
    }
    statuses
}

/// A service that requires `poll_ready` before each call, separately for each clone.
#[derive(Debug)]
pub(crate) struct Strict<S> {
    inner: S,
    is_ready: bool,
}

impl<S> Strict<S> {
    pub(crate) const fn new(inner: S) -> Self {
        Self { inner, is_ready: false }
    }
}

impl<S: Clone> Clone for Strict<S> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<S: Service<R>, R> Service<R> for Strict<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.is_ready = true;
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> S::Future {
        assert!(std::mem::take(&mut self.is_ready), "called without having been ready");
        self.inner.call(request)
    }
}
