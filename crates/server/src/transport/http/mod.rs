//! HTTP/1.1 and HTTP/2 with JSON bodies.

mod authz;
mod batch;
pub(crate) mod body;
pub(crate) mod browser;
mod check;
pub(crate) mod connection;
pub(crate) mod diagnose;
mod docs;
mod express;
mod original;
pub(crate) mod problem;
mod refund;
pub(crate) mod request;
mod rlaas;
pub(crate) mod route;
mod subject;
mod watch;
mod wire;

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use tidegate::Store;

use self::connection::{Answers, Connection, Flow};
use crate::{App, Config, Listener, ListenerKind, Peer, RefusalReason, accept};

pub(crate) type Response = http::Response<Bytes>;

/// Answers HTTP on `listener` until `shutdown` resolves, then finishes the requests in flight.
///
/// Returns when the last connection is closed, or when the drain has taken its maximum time.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) {
    let (listener, config) = (listener.into(), Arc::new(config));
    let is_local = listener.is_on_loopback();
    let door = Arc::new(Door { app, config: Arc::clone(&config), is_local });
    let shutdown = async {
        shutdown.await;
        door.app.start_draining();
    };
    accept::run(listener, &config, shutdown, |stream, seat| {
        connection::serve(stream, Arc::clone(&door), Arc::clone(&config), seat)
    })
    .await;
}

/// For everybody.
struct Door<S> {
    app: Arc<App<S>>,
    config: Arc<Config>,
    /// Whether only programs on this machine can reach it, and pages in its browsers.
    is_local: bool,
}

impl<S: Store + 'static> Answers for Door<S> {
    async fn answer(&self, peer: &Peer, request: Request<Incoming>) -> Response {
        route::answer(self, peer.address, request).await
    }

    async fn hurry(&self, connection: &mut Connection) -> Flow {
        express::serve(connection, self).await
    }

    fn broken(&self, reason: RefusalReason) {
        self.app.count_refusal(ListenerKind::Http, reason);
    }
}
