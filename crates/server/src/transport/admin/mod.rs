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

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tidegate::{SharedSettings, Store};

pub use config::AdminConfig;
pub use route::{AdminRoute, ROUTES};
pub use tokens::{AdminExposedError, AdminScope, AdminTokens, AdminTokensError};

use crate::net::connection::{self, ActiveRequest, HttpBounds, HttpProgress, HttpTenant};
use crate::transport::http::{HttpSession, finish};
use crate::{App, ClientStream, Listener, ListenerConfig, ListenerKind, RefusalReason, accept};

/// The state that all connections of the admin listener share.
#[derive(Debug)]
struct AdminContext<S> {
    app: Arc<App<S>>,
    admin: Arc<AdminConfig>,
    config: ListenerConfig,
    bounds: HttpBounds,
}

/// Answers operators on `listener` until `shutdown` resolves.
pub async fn serve<S: Store + SharedSettings + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    admin: AdminConfig,
    config: ListenerConfig,
    shutdown: impl Future<Output = ()>,
) {
    let (admin, bounds) = (Arc::new(admin), HttpBounds::new(&config));
    let admin = Arc::new(AdminContext { app, admin, config, bounds });
    let serving = accept::run(listener, &admin.config, shutdown, |stream, seat| {
        connection::serve(stream, seat, Arc::clone(&admin))
    });
    tokio::select! {
        () = serving => {}
        () = Arc::clone(&admin.admin).follow() => {}
    }
}

impl<S: Store + SharedSettings + 'static> HttpTenant for AdminContext<S> {
    type Session = HttpSession<Self>;
    type Body = Full<Bytes>;

    fn bounds(&self) -> &HttpBounds {
        &self.bounds
    }

    fn open_session(
        self: &Arc<Self>,
        stream: &ClientStream,
        _: &HttpProgress,
    ) -> Arc<Self::Session> {
        HttpSession::new(self, stream)
    }

    async fn answer(
        session: Arc<Self::Session>,
        request: Request<Incoming>,
        active: ActiveRequest,
    ) -> Response<Full<Bytes>> {
        let context = &session.context;
        let response = route::answer(context, &session.peer, request).await;
        if let Some(reason) = RefusalReason::of(response.status()) {
            context.app.count_refusal(ListenerKind::Admin, reason);
        }
        finish(response, active)
    }

    fn count_unreadable(&self, error: &hyper::Error) {
        self.app.count_unreadable(ListenerKind::Admin, error);
    }
}
