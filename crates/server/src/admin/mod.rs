//! For those who look after a server: on a listener of its own.
//!
//! It is on a loopback address, or it asks for a token, or its connections have shown a client
//! certificate: [`AdminConfig::new`] refuses everything else. There is nothing here that drops all
//! counters, and keys come back as fingerprints unless the server was told to show them.

mod access;
mod actions;
mod config;
mod masked;
mod route;
mod views;

mod subject;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate::{Board, Store};

pub use access::{OpenToAll, Scope, Tokens, TokensError};
pub use config::AdminConfig;
pub use route::{ROUTES, Route};

use crate::accept::Closing;
use crate::{App, Config, Listener, Stream, accept};

/// What a connection needs.
#[derive(Debug)]
struct Admin<S> {
    app: Arc<App<S>>,
    admin: AdminConfig,
    config: Config,
}

/// Answers operators on `listener` until `shutdown` resolves.
pub async fn serve<S: Store + Board + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    admin: AdminConfig,
    config: Config,
    shutdown: impl Future<Output = ()>,
) {
    let admin = Arc::new(Admin { app, admin, config });
    let serving = accept::run(listener, &admin.config, shutdown, |stream, closing| {
        connection(stream, Arc::clone(&admin), closing)
    });
    tokio::select! {
        () = serving => {}
        () = admin.admin.follow() => {}
    }
}

async fn connection<S: Store + Board + 'static>(
    stream: Stream,
    admin: Arc<Admin<S>>,
    mut closing: Closing,
) {
    let (head, body) = (admin.config.max_head, admin.config.max_body);
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(admin.config.header_timeout)
        .max_header_size(head)
        .max_buf_size(head.saturating_add(body).max(8 << 10));
    let service = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(route::answer(&admin, request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // An error is a client that broke off or broke the protocol; hyper has answered it.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = closing.wait_for(|closing| *closing) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
