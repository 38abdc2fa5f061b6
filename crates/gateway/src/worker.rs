//! One worker of the gateway: it accepts connections and keeps its own pool of connections to services.

use std::future::Future;
use std::sync::Arc;

use tidegate::Store;
use tidegate_server::{App, Listener, ListenerConfig, accept};
use tokio::time::interval;

use crate::connection::{self, GatewayPeer};
use crate::gateway::{Gateway, POOL_SWEEP_INTERVAL};
use crate::metrics::ServiceMetrics;
use crate::upstream::UpstreamPool;

/// The state that the client connections of one worker share. Workers do not share connections to
/// services.
#[derive(Debug)]
pub(crate) struct GatewayWorker<S> {
    pub(crate) app: Arc<App<S>>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) config: Arc<ListenerConfig>,
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
    let config = Arc::new(config);
    let pool = Arc::new(UpstreamPool::default());
    app.add_metric_source(Arc::new(ServiceMetrics::of(&gateway)));
    gateway.ensure_health_checks();
    app.add_follower(&gateway);
    let worker = Arc::new(GatewayWorker { app, gateway, config: Arc::clone(&config), pool });
    let swept = Arc::clone(&worker.pool);
    let sweeping = async move {
        let mut ticks = interval(POOL_SWEEP_INTERVAL);
        loop {
            ticks.tick().await;
            swept.sweep();
        }
    };
    let serving = accept::run(listener, &config, shutdown, |stream, seat| {
        let ip = stream.peer().address.map(|ip| ip.to_canonical());
        let peer = GatewayPeer { ip, is_secure: stream.is_secure() };
        connection::serve(stream, peer, Arc::clone(&worker), seat)
    });
    tokio::select! {
        () = serving => {}
        () = sweeping => {}
    }
}
