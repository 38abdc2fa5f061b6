//! The whole server: listeners, the workers behind them, and one way to shut down.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use tidegate::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::listener::ListenerSockets;
use crate::seats::SeatPool;
use crate::transport::{grpc, http, resp};
use crate::worker::{WorkerRuntime, WorkerTask, WorkerThreads};
use crate::{App, BoundAddress, ListenAddress, ListenError, Listener, ListenerConfig, ListenerTls};

/// Listeners on one limiter, each open on every worker.
///
/// ```
/// use std::num::NonZeroUsize;
/// use std::sync::Arc;
/// use tidegate::MemoryStore;
/// use tidegate_server::{App, ListenerConfig, Server, Transport};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let app = Arc::new(App::demo(MemoryStore::new())?);
/// let mut server = Server::new(app, ListenerConfig::default(), NonZeroUsize::MIN);
/// let place = server.open(Transport::Http, &"127.0.0.1:0".parse()?, None)?;
/// println!("listening on {place}");
/// let shutdown = async { /* until somebody says stop */ };
/// server.run(shutdown).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server<S> {
    app: Arc<App<S>>,
    config: ListenerConfig,
    workers: NonZeroUsize,
    listeners: Vec<ServerListener<S>>,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// JSON over HTTP/1.1 and HTTP/2.
    Http,
    /// Envoy's rate limit service, over gRPC.
    Grpc,
    /// The Redis protocol.
    Resp,
}

impl Transport {
    /// The URL scheme of such a listener.
    pub const fn scheme(self, is_tls: bool) -> &'static str {
        match (self, is_tls) {
            (Self::Http, false) => "http",
            (Self::Http, true) => "https",
            (Self::Grpc, false) => "grpc",
            (Self::Grpc, true) => "grpcs",
            (Self::Resp, false) => "redis",
            (Self::Resp, true) => "rediss",
        }
    }
}

/// A transport in another crate, such as the gateway.
pub trait TransportExtension<S>: fmt::Debug + Send + Sync {
    /// One worker's part of a listener, until `shutdown` resolves and the drain after it is over.
    fn serve(
        &self,
        listener: Listener,
        app: Arc<App<S>>,
        config: ListenerConfig,
        shutdown: ShutdownSignal,
    ) -> WorkerTask;
}

/// Resolves when a server is to stop.
pub type ShutdownSignal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What answers at a listener.
#[derive(Debug)]
enum ListenerService<S> {
    Builtin(Transport),
    Extension(Arc<dyn TransportExtension<S>>),
}

/// An address, and the protocol spoken there.
#[derive(Debug)]
struct ServerListener<S> {
    service: ListenerService<S>,
    opened: ListenerSockets,
    /// For the connections of all workers together.
    room: Arc<SeatPool>,
    tls: Option<Arc<ListenerTls>>,
}

impl<S: Store + 'static> Server<S> {
    /// A server without listeners.
    pub const fn new(app: Arc<App<S>>, config: ListenerConfig, workers: NonZeroUsize) -> Self {
        Self { app, config, workers, listeners: Vec::new() }
    }

    /// Listens at an address from now on. Clients that connect wait until the server runs. Returns
    /// where it listens, including the port that was picked for port 0.
    pub fn open(
        &mut self,
        transport: Transport,
        address: &ListenAddress,
        tls: Option<Arc<ListenerTls>>,
    ) -> Result<BoundAddress, ListenError> {
        self.open_listener(ListenerService::Builtin(transport), address, tls)
    }

    /// The same for a transport in another crate.
    pub fn open_extension(
        &mut self,
        guest: Arc<dyn TransportExtension<S>>,
        address: &ListenAddress,
        tls: Option<Arc<ListenerTls>>,
    ) -> Result<BoundAddress, ListenError> {
        self.open_listener(ListenerService::Extension(guest), address, tls)
    }

    fn open_listener(
        &mut self,
        speaker: ListenerService<S>,
        address: &ListenAddress,
        tls: Option<Arc<ListenerTls>>,
    ) -> Result<BoundAddress, ListenError> {
        let opened = ListenerSockets::open(address, self.workers.get())?;
        let place = opened.place().clone();
        let room = Arc::new(SeatPool::new(&self.config));
        let app = Arc::downgrade(&self.app);
        room.set_trusted_proxies(move |address| {
            app.upgrade().is_some_and(|app| app.is_trusted_proxy(address))
        });
        self.app.add_seat_pool(&place, &room);
        self.listeners.push(ServerListener { service: speaker, opened, room, tls });
        Ok(place)
    }

    /// Serves all listeners until `shutdown` resolves. Then nobody is sent here any more, requests
    /// in flight are answered, and it returns; all listeners together.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let (stop, stopped) = watch::channel(false);
        let mut workers = Vec::with_capacity(self.workers.get());
        for _ in 0..self.workers.get() {
            let worker = WorkerRuntime::new()?;
            let work = worker.within(|| self.worker_task(&stopped))?;
            workers.push((worker, work));
        }
        drop(stopped);
        let workers = WorkerThreads::start(workers)?;
        let stopping = async {
            shutdown.await;
            self.app.start_draining();
            stop.send_replace(true);
            std::future::pending::<()>().await;
        };
        let finished = tokio::select! {
            finished = workers.join() => finished,
            () = stopping => true,
        };
        match finished {
            true => Ok(()),
            false => Err(io::Error::other("a worker has panicked")),
        }
    }

    /// One worker's part of every listener. To be called on its runtime.
    fn worker_task(&mut self, stopped: &watch::Receiver<bool>) -> io::Result<WorkerTask> {
        let mut serving: Vec<WorkerTask> = Vec::with_capacity(self.listeners.len());
        for door in &mut self.listeners {
            let Some(listener) = door.opened.take(&door.room, door.tls.as_ref())? else { continue };
            let (app, config) = (Arc::clone(&self.app), self.config.clone());
            let mut stopped = stopped.clone();
            let shutdown = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
            let shutdown: ShutdownSignal = Box::pin(shutdown);
            serving.push(match &door.service {
                ListenerService::Builtin(transport) => {
                    Box::pin(serve(*transport, listener, app, config, shutdown))
                }
                ListenerService::Extension(guest) => guest.serve(listener, app, config, shutdown),
            });
        }
        let app = Arc::clone(&self.app);
        Ok(Box::pin(async move {
            let mut doors: JoinSet<()> = serving.into_iter().collect();
            // The first request should not have to wait for a connection to the store.
            doors.spawn(async move { drop(app.limiter().store().usage().await) });
            while doors.join_next().await.is_some() {}
        }))
    }
}

/// One listener of one worker. A new transport is one more arm.
async fn serve<S: Store + 'static>(
    transport: Transport,
    listener: Listener,
    app: Arc<App<S>>,
    config: ListenerConfig,
    shutdown: ShutdownSignal,
) {
    match transport {
        Transport::Http => http::serve(listener, app, config, shutdown).await,
        Transport::Grpc => grpc::serve(listener, app, config, shutdown).await,
        Transport::Resp => resp::serve(listener, app, config, shutdown).await,
    }
}
