//! One worker of the gateway: it accepts connections and keeps its own pool of connections to services.

use std::future::Future;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tidegate::Store;
use tidegate_server::connection::{
    self, ActiveRequest, Http2Bounds, HttpBounds, HttpProgress, HttpTenant,
};
use tidegate_server::{
    App, ClientStream, Listener, ListenerConfig, ListenerKind, ShutdownSignal, TransportExtension,
    WorkerTask, accept,
};
use tokio::time::interval;

use crate::body::GatewayBody;
use crate::buffers::UPLOAD_WINDOW;
use crate::gateway::{Gateway, POOL_SWEEP_INTERVAL};
use crate::session::GatewaySession;
use crate::upstream::UpstreamPool;

/// The state that the client connections of one worker share. Workers do not share connections to
/// services.
#[derive(Debug)]
pub(crate) struct GatewayWorker<S> {
    pub(crate) app: Arc<App<S>>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) bounds: HttpBounds,
    pub(crate) pool: Arc<UpstreamPool>,
}

/// Forwards requests from `listener` to services until `shutdown` resolves, then finishes those in
/// flight.
///
/// Returns when the last connection is closed, or when the drain timeout is over. Every worker calls
/// this on its own runtime.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    gateway: Arc<Gateway>,
    config: ListenerConfig,
    shutdown: impl Future<Output = ()>,
) {
    let (bounds, pool) = (http_bounds(&config), Arc::new(UpstreamPool::default()));
    gateway.ensure_health_checks();
    app.add_extension(&gateway);
    let worker = Arc::new(GatewayWorker { app, gateway, bounds, pool });
    let swept = Arc::clone(&worker.pool);
    let sweeping = async move {
        let mut ticks = interval(POOL_SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            swept.sweep();
        }
    };
    let serving = accept::run(listener, &config, shutdown, |stream, seat| {
        connection::serve(stream, seat, Arc::clone(&worker))
    });
    tokio::select! {
        () = serving => {}
        () = sweeping => {}
    }
}

impl<S: Store + 'static> TransportExtension<S> for Gateway {
    fn serve(
        self: Arc<Self>,
        listener: Listener,
        app: Arc<App<S>>,
        config: ListenerConfig,
        shutdown: ShutdownSignal,
    ) -> WorkerTask {
        Box::pin(serve(listener, app, self, config, shutdown))
    }
}

impl<S: Store + 'static> HttpTenant for GatewayWorker<S> {
    type Session = GatewaySession<S>;
    type Body = GatewayBody;

    fn bounds(&self) -> &HttpBounds {
        &self.bounds
    }

    fn open_session(
        self: &Arc<Self>,
        stream: &ClientStream,
        progress: &HttpProgress,
    ) -> Arc<GatewaySession<S>> {
        Arc::new(GatewaySession::new(Arc::clone(self), stream, progress.clone()))
    }

    fn answer(
        session: Arc<GatewaySession<S>>,
        request: Request<Incoming>,
        active: ActiveRequest,
    ) -> impl Future<Output = Response<GatewayBody>> + Send {
        GatewaySession::answer(session, request, active)
    }

    fn count_unreadable(&self, error: &hyper::Error) {
        self.app.count_unreadable(ListenerKind::Gateway, error);
    }

    async fn run_switched(session: &GatewaySession<S>) {
        if let Some(tunnel) = session.take_tunnel() {
            tunnel.run().await;
        }
    }
}

fn http_bounds(config: &ListenerConfig) -> HttpBounds {
    let bounds = HttpBounds::new(config);
    HttpBounds {
        max_buffered: BUFFER,
        is_proxy: true,
        http2: Http2Bounds {
            max_streams: MAX_STREAMS,
            stream_window: STREAM_WINDOW,
            // `buffers` reserves this much for the request bodies of a connection.
            connection_window: UPLOAD_WINDOW,
            max_errors: MAX_ERRORS,
            ping_every: config.idle_timeout,
            ..bounds.http2
        },
        ..bounds
    }
}

const BUFFER: usize = 64 << 10;
const MAX_STREAMS: u32 = 200;
const STREAM_WINDOW: usize = 128 << 10;
const MAX_ERRORS: usize = 1_024;
