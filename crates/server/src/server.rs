//! The whole server: listeners, the workers behind them, and one way to shut down.

use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;

use tidegate::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::net::listener::ListenerSockets;
use crate::net::seats::SeatPool;
use crate::net::worker::{WorkerRuntime, WorkerTask, WorkerThreads};
use crate::transport::grpc::{self, GrpcOptions};
use crate::transport::http::{self, HttpOptions};
use crate::transport::resp::{self, RespOptions};
use crate::{App, BoundAddress, ListenAddress, ListenError, Listener, ListenerConfig, ListenerTls};

/// A server: listeners on one limiter, each of them open on every worker.
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
/// let address = server.open(Transport::Http, &"127.0.0.1:0".parse()?, None)?;
/// println!("listening on {address}");
/// let shutdown = async { /* resolves when the server should stop */ };
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

/// A transport with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportOptions {
    /// JSON over HTTP/1.1 and HTTP/2.
    Http(HttpOptions),
    /// Envoy's rate limit service, over gRPC.
    Grpc(GrpcOptions),
    /// The Redis protocol.
    Resp(RespOptions),
}

impl TransportOptions {
    /// The transport.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Http(_) => Transport::Http,
            Self::Grpc(_) => Transport::Grpc,
            Self::Resp(_) => Transport::Resp,
        }
    }
}

/// The default options of a transport.
impl From<Transport> for TransportOptions {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Http => Self::Http(HttpOptions::default()),
            Transport::Grpc => Self::Grpc(GrpcOptions::default()),
            Transport::Resp => Self::Resp(RespOptions::default()),
        }
    }
}

/// A transport in another crate, such as the gateway.
pub trait TransportExtension<S>: fmt::Debug + Send + Sync {
    /// Serves one worker's part of a listener until `shutdown` resolves and the drain after it ends.
    fn serve(
        self: Arc<Self>,
        listener: Listener,
        app: Arc<App<S>>,
        config: ListenerConfig,
        shutdown: ShutdownSignal,
    ) -> WorkerTask;
}

/// Resolves when a server is to stop.
pub type ShutdownSignal = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The transport that serves a listener.
#[derive(Debug)]
enum ListenerService<S> {
    Builtin(TransportOptions),
    Extension(Arc<dyn TransportExtension<S>>),
}

/// An open listener and its transport.
#[derive(Debug)]
struct ServerListener<S> {
    service: ListenerService<S>,
    sockets: ListenerSockets,
    /// Shared by the connections of all workers.
    seats: Arc<SeatPool>,
    tls: Option<Arc<ListenerTls>>,
}

impl<S: Store + 'static> Server<S> {
    /// A server without listeners.
    pub const fn new(app: Arc<App<S>>, config: ListenerConfig, workers: NonZeroUsize) -> Self {
        Self { app, config, workers, listeners: Vec::new() }
    }

    /// Starts to listen at an address. Clients that connect wait until the server runs. Returns the
    /// bound address, with the port that the system picked for port 0.
    pub fn open(
        &mut self,
        transport: impl Into<TransportOptions>,
        address: &ListenAddress,
        tls: Option<Arc<ListenerTls>>,
    ) -> Result<BoundAddress, ListenError> {
        self.open_listener(ListenerService::Builtin(transport.into()), address, tls)
    }

    /// The same for a transport in another crate.
    pub fn open_extension(
        &mut self,
        extension: Arc<dyn TransportExtension<S>>,
        address: &ListenAddress,
        tls: Option<Arc<ListenerTls>>,
    ) -> Result<BoundAddress, ListenError> {
        self.open_listener(ListenerService::Extension(extension), address, tls)
    }

    fn open_listener(
        &mut self,
        service: ListenerService<S>,
        address: &ListenAddress,
        tls: Option<Arc<ListenerTls>>,
    ) -> Result<BoundAddress, ListenError> {
        let sockets = ListenerSockets::open(address, self.workers.get())?;
        let bound = sockets.address().clone();
        let seats = Arc::new(SeatPool::new(&self.config));
        let app = Arc::downgrade(&self.app);
        seats.set_trusted_proxies(move |address| {
            app.upgrade().is_some_and(|app| app.is_trusted_proxy(address))
        });
        self.app.add_seat_pool(&bound, &seats);
        self.listeners.push(ServerListener { service, sockets, seats, tls });
        Ok(bound)
    }

    /// Serves all listeners until `shutdown` resolves. Then all of them drain: `/readyz` fails, requests
    /// in flight are answered, and the call returns.
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

    /// One worker's part of every listener. Must be called within the worker's runtime.
    fn worker_task(&mut self, stopped: &watch::Receiver<bool>) -> io::Result<WorkerTask> {
        let mut serving: Vec<WorkerTask> = Vec::with_capacity(self.listeners.len());
        for open in &mut self.listeners {
            let Some(listener) = open.sockets.take(&open.seats, open.tls.as_ref())? else {
                continue;
            };
            let (app, config) = (Arc::clone(&self.app), self.config.clone());
            let mut stopped = stopped.clone();
            let shutdown = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
            let shutdown: ShutdownSignal = Box::pin(shutdown);
            serving.push(match &open.service {
                ListenerService::Builtin(transport) => {
                    Box::pin(serve(transport.clone(), listener, app, config, shutdown))
                }
                ListenerService::Extension(extension) => {
                    Arc::clone(extension).serve(listener, app, config, shutdown)
                }
            });
        }
        let app = Arc::clone(&self.app);
        Ok(Box::pin(async move {
            let mut tasks: JoinSet<()> = serving.into_iter().collect();
            // Connects to the store early, so that the first request does not have to wait for it.
            tasks.spawn(async move { drop(app.limiter().store().usage().await) });
            while tasks.join_next().await.is_some() {}
        }))
    }
}

/// Serves one listener on one worker.
async fn serve<S: Store + 'static>(
    transport: TransportOptions,
    listener: Listener,
    app: Arc<App<S>>,
    config: ListenerConfig,
    shutdown: ShutdownSignal,
) {
    match transport {
        TransportOptions::Http(options) => {
            http::serve(listener, app, config, options, shutdown).await;
        }
        TransportOptions::Grpc(options) => {
            grpc::serve(listener, app, config, options, shutdown).await;
        }
        TransportOptions::Resp(options) => {
            resp::serve(listener, app, config, options, shutdown).await;
        }
    }
}
