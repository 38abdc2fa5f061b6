//! One worker's part of the gateway.

use std::future::Future;
use std::sync::Arc;

use tidegate::Store;
use tidegate_server::{App, Config, Listener, accept};
use tokio::time::interval;

use crate::connection::{self, Peer};
use crate::gateway::{Gateway, SWEEP};
use crate::metrics::ServiceMetrics;
use crate::upstream::Pool;

/// What the connections of one worker share. Connections to services do not leave it.
#[derive(Debug)]
pub(crate) struct Worker<S> {
    pub(crate) app: Arc<App<S>>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) config: Arc<Config>,
    pub(crate) pool: Arc<Pool>,
}

/// Passes requests from `listener` on to services until `shutdown` resolves, then finishes those in
/// flight.
///
/// Returns when the last connection is closed, or when the drain has taken as long as it may. Every
/// worker has a call of its own, on its own runtime.
pub async fn serve<S: Store + 'static>(
    listener: impl Into<Listener>,
    app: Arc<App<S>>,
    gateway: Arc<Gateway>,
    config: Config,
    shutdown: impl Future<Output = ()>,
) {
    let config = Arc::new(config);
    let pool = Arc::new(Pool::default());
    app.also_show(Arc::new(ServiceMetrics::of(&gateway)));
    gateway.begin_checks();
    app.followed_by(&gateway);
    let worker = Arc::new(Worker { app, gateway, config: Arc::clone(&config), pool });
    let swept = Arc::clone(&worker.pool);
    let sweeping = async move {
        let mut ticks = interval(SWEEP);
        loop {
            ticks.tick().await;
            swept.sweep();
        }
    };
    let serving = accept::run(listener, &config, shutdown, |stream, seat| {
        let ip = stream.peer().address.map(|ip| ip.to_canonical());
        let peer = Peer { ip, is_secure: stream.is_secure() };
        connection::serve(stream, peer, Arc::clone(&worker), seat)
    });
    tokio::select! {
        () = serving => {}
        () = sweeping => {}
    }
}
