//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! The one call that matters is served below any gRPC library, on hyper's HTTP/2: a message in, a
//! decision, a message out. The rest, which is asked now and then, is handled by tonic
//! ([`others`]).

mod activity;
mod answer;
mod ask;
mod body;
mod budget;
mod connection;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod heard;
pub(crate) mod message;
mod others;
mod refusal;
mod request;
mod route;
mod settle;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tokio::time::sleep;

use self::body::Body;
use self::budget::MessageBudget;
use self::message::Bounds;
use self::others::Others;
use crate::log::RareLines;
use crate::{App, Config, Listener, accept};

type Response = http::Response<Body>;

/// Answers gRPC on `listener` until `shutdown` resolves, then finishes the calls in flight.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) {
    let door = Arc::new(Door::new(app, config).await);
    let shutdown = async {
        shutdown.await;
        door.app.start_draining();
        door.others.stop_serving().await;
        sleep(door.config.drain_delay).await;
        door.others.end_watches().await;
    };
    // The delay is above: health watches end after it, and before the connections.
    let at_once = Config { drain_delay: Duration::ZERO, ..door.config.clone() };
    accept::run(listener, &at_once, shutdown, |stream, seat| {
        connection::serve(stream, Arc::clone(&door), seat)
    })
    .await;
}

/// What the connections of a listener share.
struct Door<S> {
    app: Arc<App<S>>,
    config: Config,
    others: Others,
    bounds: Bounds,
    /// For what nobody else would tell the operator.
    lines: RareLines,
}

impl<S: Store> Door<S> {
    async fn new(app: Arc<App<S>>, config: Config) -> Self {
        let small = config.max_body;
        let bounds = Bounds {
            small,
            large: small.max(MAX_MESSAGE),
            budget: MessageBudget::new(ALL_LARGE_MESSAGES),
        };
        Self { app, config, others: Others::new().await, bounds, lines: RareLines::new() }
    }
}

/// Envoy takes 60 KiB of fields from a client, and a field can be part of several descriptors.
const MAX_MESSAGE: usize = 1 << 20;
/// For each worker.
const ALL_LARGE_MESSAGES: usize = 16 << 20;
