//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! The one call that matters is served below any gRPC library, on hyper's HTTP/2: a message in, a
//! decision, a message out. The rest, which is asked now and then, is handled by tonic
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
    let door = Arc::new(GrpcListenerContext::new(app, config).await);
    let shutdown = async {
        shutdown.await;
        door.app.start_draining();
        door.tonic_services.stop_serving().await;
        sleep(door.config.drain_delay).await;
        door.tonic_services.end_watches().await;
    };
    // The delay is above: health watches end after it, and before the connections.
    let at_once = ListenerConfig { drain_delay: Duration::ZERO, ..door.config.clone() };
    accept::run(listener, &at_once, shutdown, |stream, seat| {
        connection::serve(stream, Arc::clone(&door), seat)
    })
    .await;
}

/// What the connections of a listener share.
struct GrpcListenerContext<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    tonic_services: TonicServices,
    bounds: GrpcMessageBounds,
    /// For what nobody else would tell the operator.
    lines: LogThrottle,
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
            lines: LogThrottle::new(),
        }
    }
}

/// Envoy takes 60 KiB of fields from a client, and a field can be part of several descriptors.
const MAX_MESSAGE: usize = 1 << 20;
/// For each worker.
const ALL_LARGE_MESSAGES: usize = 16 << 20;
