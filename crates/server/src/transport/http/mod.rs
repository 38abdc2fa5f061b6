//! The HTTP transport: HTTP/1.1 and HTTP/2 with JSON bodies.

mod authz;
mod batch;
pub(crate) mod body;
pub(crate) mod browser;
mod check;
pub(crate) mod diagnosis;
mod docs;
mod fast_path;
mod original_request;
mod refund;
pub(crate) mod refusal;
pub(crate) mod request;
mod rlaas;
pub(crate) mod route;
mod subject;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tidegate::Store;

use crate::net::connection::{
    self, ActiveRequest, FastPathOutcome, HttpBounds, HttpConnection, HttpProgress, HttpTenant,
};
use crate::{App, ClientStream, Listener, ListenerConfig, ListenerKind, StreamPeer, accept};

pub(crate) type HttpResponse = http::Response<Bytes>;

/// The options of an HTTP listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// On a loopback address: the names accepted in `Host`, besides addresses and the names of this
    /// machine. Any other name could be a DNS rebinding attack.
    pub hosts: Vec<String>,
}

/// Answers HTTP on `listener` until `shutdown` resolves, then finishes the requests in flight.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: ListenerConfig,
    options: HttpOptions,
    shutdown: impl Future<Output = ()>,
) {
    let (listener, bounds) = (listener.into(), HttpBounds::new(&config));
    let is_local = listener.is_on_loopback();
    let context = Arc::new(HttpListenerContext { app, config, options, bounds, is_local });
    let shutdown = async {
        shutdown.await;
        context.app.start_draining();
    };
    accept::run(listener, &context.config, shutdown, |stream, seat| {
        connection::serve(stream, seat, Arc::clone(&context))
    })
    .await;
}

/// What the connections of a listener share.
struct HttpListenerContext<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    options: HttpOptions,
    bounds: HttpBounds,
    /// Whether the listener is on a loopback address: only programs on this machine can reach it, and
    /// pages in this machine's browsers.
    is_local: bool,
}

/// What the requests of one connection share.
pub(crate) struct HttpSession<C> {
    pub(crate) context: Arc<C>,
    pub(crate) peer: StreamPeer,
}

impl<C> HttpSession<C> {
    pub(crate) fn new(context: &Arc<C>, stream: &ClientStream) -> Arc<Self> {
        Arc::new(Self { context: Arc::clone(context), peer: stream.peer().clone() })
    }
}

impl<S: Store + 'static> HttpTenant for HttpListenerContext<S> {
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
        finish(route::answer(&session.context, session.peer.address, request).await, active)
    }

    async fn answer_without_hyper(&self, connection: &mut HttpConnection) -> FastPathOutcome {
        fast_path::serve(connection, self).await
    }

    fn count_unreadable(&self, error: &hyper::Error) {
        self.app.count_unreadable(ListenerKind::Http, error);
    }
}

/// Ends a request whose response is ready.
pub(crate) fn finish(mut response: HttpResponse, active: ActiveRequest) -> Response<Full<Bytes>> {
    active.announce_close(&mut response);
    drop(active);
    response.map(Full::new)
}
