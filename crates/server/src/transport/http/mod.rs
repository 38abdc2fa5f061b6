//! The HTTP transport: HTTP/1.1 and HTTP/2 with JSON bodies.

mod authz;
mod batch;
pub(crate) mod body;
pub(crate) mod browser;
mod check;
pub(crate) mod connection;
pub(crate) mod diagnosis;
mod docs;
mod fast_path;
mod hyper_driver;
mod original_request;
mod refund;
pub(crate) mod refusal;
pub(crate) mod request;
mod rlaas;
pub(crate) mod route;
mod subject;
mod timer;
mod wire;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use tidegate::Store;

use self::connection::{FastPathOutcome, HttpConnection, HttpResponder};
use crate::{App, Listener, ListenerConfig, ListenerKind, RefusalReason, StreamPeer, accept};

pub(crate) type HttpResponse = http::Response<Bytes>;

/// Answers HTTP on `listener` until `shutdown` resolves, then finishes the requests in flight.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: ListenerConfig,
    shutdown: impl Future<Output = ()>,
) {
    let (listener, config) = (listener.into(), Arc::new(config));
    let is_local = listener.is_on_loopback();
    let context = Arc::new(HttpListenerContext { app, config: Arc::clone(&config), is_local });
    let shutdown = async {
        shutdown.await;
        context.app.start_draining();
    };
    accept::run(listener, &config, shutdown, |stream, seat| {
        connection::serve(stream, Arc::clone(&context), Arc::clone(&config), seat)
    })
    .await;
}

/// What the connections of a listener share.
struct HttpListenerContext<S> {
    app: Arc<App<S>>,
    config: Arc<ListenerConfig>,
    /// Whether the listener is on a loopback address: only programs on this machine can reach it, and
    /// pages in this machine's browsers.
    is_local: bool,
}

impl<S: Store + 'static> HttpResponder for HttpListenerContext<S> {
    async fn answer(&self, peer: &StreamPeer, request: Request<Incoming>) -> HttpResponse {
        route::answer(self, peer.address, request).await
    }

    async fn answer_without_hyper(&self, connection: &mut HttpConnection) -> FastPathOutcome {
        fast_path::serve(connection, self).await
    }

    fn count_unreadable(&self, reason: RefusalReason) {
        self.app.count_refusal(ListenerKind::Http, reason);
    }
}
