//! Envoy's rate limit service over gRPC, with health and reflection.
//!
//! The one call that matters is served below any gRPC library, on hyper's HTTP/2: a message in, a
//! decision, a message out. The rest, which is asked now and then, is handled by tonic
//! ([`others`]).

mod activity;
mod answer;
mod ask;
mod body;
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
use self::others::Others;
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
    let (config, others) = (Arc::new(config), Arc::new(Others::new().await));
    let shutdown = async {
        shutdown.await;
        app.start_draining();
        others.stop_serving().await;
        sleep(config.drain_delay).await;
        others.end_watches().await;
    };
    // The delay is above: health watches end after it, and before the connections.
    let at_once = Config { drain_delay: Duration::ZERO, ..(*config).clone() };
    accept::run(listener, &at_once, shutdown, |stream, seat| {
        let (app, config, others) = (Arc::clone(&app), Arc::clone(&config), Arc::clone(&others));
        connection::serve(stream, app, config, others, seat)
    })
    .await;
}
