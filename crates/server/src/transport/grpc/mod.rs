//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! `ShouldRateLimit` is served directly on hyper's HTTP/2, without a gRPC library: one message in, one
//! decision, one message out. The other services are called rarely, so tonic handles them
//! ([`tonic_services`]).

mod activity;
mod answer;
mod body;
mod budget;
mod connection;
mod decision;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub(crate) mod message;
mod refusal;
mod request;
mod route;
mod should_rate_limit;
mod socket;
mod tonic_services;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tokio::time::sleep;

use self::body::GrpcBody;
use self::budget::MessageBudget;
use self::message::GrpcMessageBounds;
use self::tonic_services::TonicServices;
use crate::log::LogThrottle;
use crate::{App, Listener, ListenerConfig, accept};

type GrpcResponse = http::Response<GrpcBody>;

/// Answers gRPC on `listener` until `shutdown` resolves, then finishes the calls in flight.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: ListenerConfig,
    shutdown: impl Future<Output = ()>,
) {
    let context = Arc::new(GrpcListenerContext::new(app, config).await);
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
        connection::serve(stream, Arc::clone(&context), seat)
    })
    .await;
}

/// What the connections of a listener share.
struct GrpcListenerContext<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    tonic_services: TonicServices,
    bounds: GrpcMessageBounds,
    /// For refusals: Envoy does not report them, so the operator learns of them only from this log.
    log: LogThrottle,
}

impl<S: Store> GrpcListenerContext<S> {
    async fn new(app: Arc<App<S>>, config: ListenerConfig) -> Self {
        let small = config.max_body;
        let bounds = GrpcMessageBounds {
            small,
            large: small.max(MAX_MESSAGE),
            budget: MessageBudget::new(ALL_LARGE_MESSAGES),
        };
        Self {
            app,
            config,
            tonic_services: TonicServices::new().await,
            bounds,
            log: LogThrottle::new(),
        }
    }
}

/// Envoy accepts 60 KiB of headers from a client, and a header can be part of several descriptors.
const MAX_MESSAGE: usize = 1 << 20;
/// The memory for all large messages of one worker.
const ALL_LARGE_MESSAGES: usize = 16 << 20;
