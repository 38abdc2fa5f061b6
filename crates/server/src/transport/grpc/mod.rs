//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! `ShouldRateLimit` is served directly on hyper's HTTP/2, without a gRPC library: one message in, one
//! decision, one message out. The other services are called rarely, so tonic handles them
//! ([`tonic_services`]).

mod answer;
mod body;
mod budget;
mod decision;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub(crate) mod message;
mod refusal;
mod request;
mod route;
mod should_rate_limit;
mod tonic_services;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use tidegate::Store;
use tokio::time::sleep;

use self::body::GrpcBody;
use self::budget::MessageBudget;
use self::message::{GrpcMessageBounds, PREFIX};
use self::tonic_services::TonicServices;
use crate::net::connection::{
    self, ActiveRequest, Http2Bounds, HttpBounds, HttpProgress, HttpTenant,
};
use crate::service::log::LogThrottle;
use crate::{App, ClientStream, Listener, ListenerConfig, ListenerKind, accept};

type GrpcResponse = http::Response<GrpcBody>;

/// The options of a gRPC listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrpcOptions {
    /// Whether each descriptor of a request is charged on its own, even if another one is over its limit,
    /// as envoyproxy/ratelimit does. By default all are charged or none.
    pub charge_each: bool,
}

/// Answers gRPC on `listener` until `shutdown` resolves, then finishes the calls in flight.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: ListenerConfig,
    options: GrpcOptions,
    shutdown: impl Future<Output = ()>,
) {
    let context = Arc::new(GrpcListenerContext::new(app, config, options).await);
    let shutdown = async {
        shutdown.await;
        context.app.start_draining();
        context.tonic_services.stop_serving().await;
        sleep(context.config.drain_delay).await;
        context.tonic_services.end_watches().await;
    };
    // `shutdown` already waits for the delay: health watches must end after it, but before the connections.
    let without_delay = ListenerConfig { drain_delay: Duration::ZERO, ..context.config.clone() };
    accept::run(listener, &without_delay, shutdown, |stream, seat| {
        connection::serve(stream, seat, Arc::clone(&context))
    })
    .await;
}

/// What the connections of a listener share.
struct GrpcListenerContext<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    options: GrpcOptions,
    tonic_services: TonicServices,
    http_bounds: HttpBounds,
    bounds: GrpcMessageBounds,
    /// For refusals: Envoy does not report them, so the operator learns of them only from this log.
    log: LogThrottle,
}

impl<S: Store> GrpcListenerContext<S> {
    async fn new(app: Arc<App<S>>, config: ListenerConfig, options: GrpcOptions) -> Self {
        let small = config.max_body;
        let bounds = GrpcMessageBounds {
            small,
            large: small.max(MAX_MESSAGE),
            budget: MessageBudget::new(ALL_LARGE_MESSAGES),
        };
        Self {
            app,
            http_bounds: http_bounds(&config),
            config,
            options,
            tonic_services: TonicServices::new().await,
            bounds,
            log: LogThrottle::new(),
        }
    }
}

impl<S: Store + 'static> HttpTenant for GrpcListenerContext<S> {
    type Session = Self;
    type Body = GrpcBody;

    fn bounds(&self) -> &HttpBounds {
        &self.http_bounds
    }

    fn open_session(self: &Arc<Self>, _: &ClientStream, _: &HttpProgress) -> Arc<Self> {
        Arc::clone(self)
    }

    async fn answer(
        context: Arc<Self>,
        request: Request<Incoming>,
        active: ActiveRequest,
    ) -> GrpcResponse {
        route::answer(&context, request, active).await
    }

    fn count_unreadable(&self, error: &hyper::Error) {
        self.app.count_unreadable(ListenerKind::Grpc, error);
    }
}

fn http_bounds(config: &ListenerConfig) -> HttpBounds {
    let bounds = HttpBounds::new(config);
    HttpBounds {
        is_http2_only: true,
        http2: Http2Bounds {
            // Room for one message of the usual size: it is read as a whole before it is decoded.
            stream_window: config.max_body.saturating_add(PREFIX),
            connection_window: CONNECTION_WINDOW,
            // Envoy forwards its client's trace headers, such as `tracestate`. Accept as much as Envoy
            // does: otherwise the call would fail, and Envoy would let the request pass.
            max_head: config.max_head.max(MAX_HEAD),
            // Envoy resets a call when its own client hangs up. If a few resets could end the connection,
            // all other calls on it would fail.
            max_resets: MAX_RESETS,
            max_errors: MAX_ERRORS,
            ping_timeout: PING_TIMEOUT,
            // Envoy has no use for the date.
            has_date: false,
            ..bounds.http2
        },
        ..bounds
    }
}

const CONNECTION_WINDOW: usize = 1 << 20;
/// Twice what Envoy accepts from a client by default.
const MAX_HEAD: usize = 128 << 10;
const MAX_RESETS: usize = 1_000;
const MAX_ERRORS: usize = 256;
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// Envoy accepts 60 KiB of headers from a client, and a header can be part of several descriptors.
const MAX_MESSAGE: usize = 1 << 20;
/// The memory for all large messages of one worker.
const ALL_LARGE_MESSAGES: usize = 16 << 20;
