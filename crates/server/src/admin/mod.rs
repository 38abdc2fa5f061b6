//! The admin API for operators, on a listener of its own.
//!
//! It is on a loopback address, or requires a token, or its clients have presented a certificate:
//! [`AdminConfig::new`] refuses everything else. Nothing here drops all counters, and keys are
//! returned as fingerprints unless the server was told to show them.

mod access;
mod actions;
mod body;
mod config;
mod masked;
mod route;
mod subject;
mod views;

use std::future::Future;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use tidegate::{Board, Store};

pub use access::{OpenToAll, Scope, Tokens, TokensError};
pub use config::AdminConfig;
pub use route::{ROUTES, Route};

use crate::transport::http::Response;
use crate::transport::http::connection::{self, Answers};
use crate::{App, Config, Listener, ListenerKind, Peer, RefusalReason, accept};

/// What a connection needs.
#[derive(Debug)]
struct Admin<S> {
    app: Arc<App<S>>,
    admin: AdminConfig,
    config: Arc<Config>,
}

/// Answers operators on `listener` until `shutdown` resolves.
pub async fn serve<S: Store + Board + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    admin: AdminConfig,
    config: Config,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let admin = Arc::new(Admin { app, admin, config: Arc::clone(&config) });
    let serving = accept::run(listener, &config, shutdown, |stream, seat| {
        connection::serve(stream, Arc::clone(&admin), Arc::clone(&config), seat)
    });
    tokio::select! {
        () = serving => {}
        () = admin.admin.follow() => {}
    }
}

impl<S: Store + Board + 'static> Answers for Admin<S> {
    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Response {
        let response = route::answer(self, peer, request).await;
        if let Some(reason) = RefusalReason::of(response.status()) {
            self.app.count_refusal(ListenerKind::Admin, reason);
        }
        response
    }

    fn broken(&self, reason: RefusalReason) {
        self.app.count_refusal(ListenerKind::Admin, reason);
    }
}
