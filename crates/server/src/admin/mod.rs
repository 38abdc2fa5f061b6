//! The admin API for operators, on a listener of its own.
//!
//! The listener is on a loopback address, requires a token, or requires a client certificate:
//! [`AdminConfig::new`] refuses everything else. No action drops all counters, and keys are returned as
//! marks unless the server is configured to show them.

mod actions;
mod body;
mod config;
mod route;
mod secret_mask;
mod subject;
mod tokens;
mod views;

use std::future::Future;
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use tidegate::{SharedSettings, Store};

pub use config::AdminConfig;
pub use route::{AdminRoute, ROUTES};
pub use tokens::{AdminExposedError, AdminScope, AdminTokens, AdminTokensError};

use crate::transport::http::HttpResponse;
use crate::transport::http::connection::{self, HttpResponder};
use crate::{App, Listener, ListenerConfig, ListenerKind, RefusalReason, StreamPeer, accept};

/// The state that all connections of the admin listener share.
#[derive(Debug)]
struct AdminContext<S> {
    app: Arc<App<S>>,
    admin: Arc<AdminConfig>,
    config: Arc<ListenerConfig>,
}

/// Answers operators on `listener` until `shutdown` resolves.
pub async fn serve<S: Store + SharedSettings + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    admin: AdminConfig,
    config: ListenerConfig,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let admin = Arc::new(AdminContext { app, admin: Arc::new(admin), config: Arc::clone(&config) });
    let serving = accept::run(listener, &config, shutdown, |stream, seat| {
        connection::serve(stream, Arc::clone(&admin), Arc::clone(&config), seat)
    });
    tokio::select! {
        () = serving => {}
        () = Arc::clone(&admin.admin).follow() => {}
    }
}

impl<S: Store + SharedSettings + 'static> HttpResponder for AdminContext<S> {
    async fn answer(&self, peer: &StreamPeer, request: Request<Incoming>) -> HttpResponse {
        let response = route::answer(self, peer, request).await;
        if let Some(reason) = RefusalReason::of(response.status()) {
            self.app.count_refusal(ListenerKind::Admin, reason);
        }
        response
    }

    fn count_unreadable(&self, reason: RefusalReason) {
        self.app.count_refusal(ListenerKind::Admin, reason);
    }
}
