//! HTTP/1.1 and HTTP/2 with JSON bodies.

mod authz;
mod batch;
pub(crate) mod body;
mod check;
mod connection;
mod diagnose;
mod docs;
mod original;
pub(crate) mod problem;
mod refund;
mod request;
mod rlaas;
pub(crate) mod route;
mod subject;
mod watch;
mod wire;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use tidegate::Store;

use crate::{App, Config, Listener, accept};

pub(crate) type Response = http::Response<Full<Bytes>>;

/// Answers HTTP on `listener` until `shutdown` resolves, then finishes the requests in flight.
///
/// Returns when the last connection is closed, or when the drain has taken as long as it may.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let shutdown = async {
        shutdown.await;
        app.start_draining();
    };
    accept::run(listener, &config, shutdown, |stream, closing| {
        connection::serve(stream, Arc::clone(&app), Arc::clone(&config), closing)
    })
    .await;
}
