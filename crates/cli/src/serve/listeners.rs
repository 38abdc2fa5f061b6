//! Opens the listeners of `serve`, and runs them until a signal.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use tidegate::{SharedSettings, Store};
use tidegate_server::log::{self, LogLevel};
use tidegate_server::{App, BoundAddress, ListenerConfig, ListenerTls, Server, Transport};
use tokio::sync::Notify;

use super::open_files::OpenFileNeeds;
use super::{ServeCommand, StopSignals};
use crate::ERROR;
use crate::gateway::PreparedGateway;

/// A server whose listeners are open, but not served yet.
pub(super) struct OpenedServer<S> {
    server: Server<S>,
    pub(super) listeners: Vec<(Transport, BoundAddress)>,
    /// The addresses of the gateway.
    pub(super) gateways: Vec<BoundAddress>,
    /// The bounds of each listener.
    pub(super) config: ListenerConfig,
    pub(super) tls: Option<Arc<ListenerTls>>,
}

impl ServeCommand {
    /// Opens the listeners of all transports and of the gateway.
    pub(super) fn open_listeners<S: Store + SharedSettings + 'static>(
        &self,
        app: &Arc<App<S>>,
    ) -> anyhow::Result<OpenedServer<S>> {
        let (workers, mut config) = (self.workers(), self.config());
        let (addresses, gateway) = (self.listeners()?, self.gateway.prepare(app.limiter().plan())?);
        gateway.iter().for_each(|gateway| gateway.follow_reloads(app));
        let needs = OpenFileNeeds {
            connections: config.max_connections,
            listeners: addresses.len()
                + gateway.as_ref().map_or(0, PreparedGateway::files_per_client),
            operators: self.operate.max_connections(),
            workers: workers.get(),
        };
        config.max_connections = needs.allowed_connections();
        let tls = self.tls.load()?.map(Arc::new);
        let mut server = Server::new(Arc::clone(app), config.clone(), workers);
        let mut listeners = Vec::new();
        for (options, address) in addresses {
            let transport = options.transport();
            let opened = server.open(options, &address, tls.clone());
            listeners.push((transport, opened.with_context(|| flag(transport))?));
        }
        let gateways =
            gateway.map(|gateway| gateway.open(&mut server, tls.as_ref())).transpose()?;
        let gateways = gateways.unwrap_or_default();
        if listeners.is_empty() && gateways.is_empty() {
            bail!("every listener is off: expected an address for one of them, or --upstream");
        }
        Ok(OpenedServer { server, listeners, gateways, config, tls })
    }
}

impl<S: Store + SharedSettings + 'static> OpenedServer<S> {
    /// Serves until a signal, and then until all connections have ended or the time for it is over. A
    /// second signal is an immediate end.
    pub(super) async fn run_until_stopped(self, mut stop: StopSignals) -> anyhow::Result<ExitCode> {
        let shutdown = Notify::new();
        let mut running = std::pin::pin!(self.server.run(shutdown.notified()));
        tokio::select! {
            ended = &mut running => return ended.map(|()| ExitCode::SUCCESS).map_err(Into::into),
            () = stop.next() => shutdown.notify_one(),
        }
        let seconds = (self.config.drain_delay + self.config.drain_timeout).as_secs();
        let message = format!("stopping within {seconds}s; a second signal stops immediately");
        log::emit(LogLevel::Info, "stopping", &message, &[]);
        tokio::select! {
            ended = &mut running => ended.map(|()| ExitCode::SUCCESS).map_err(Into::into),
            () = stop.next() => Ok(ExitCode::from(ERROR)),
        }
    }
}

/// The flag that sets the address of a listener.
pub(super) const fn flag(transport: Transport) -> &'static str {
    match transport {
        Transport::Grpc => "--grpc",
        Transport::Resp => "--resp",
        _ => "--http",
    }
}
