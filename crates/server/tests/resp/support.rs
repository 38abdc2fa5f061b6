//! A real server on a free port, and clients that send exact bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate::config::PolicySource;
use tidegate::{ManualClock, MemoryStore, Store, Timestamp};
use tidegate_server::resp::{self, Password, RespOptions};
use tidegate_server::{App, ClientRights, ListenerConfig};
use tidegate_testkit::{Connection, Reply};
use tokio::sync::oneshot;

// With a deadline that no busy machine misses: a limit without it would count here for a while.
pub(crate) const POLICIES: &str = "
defaults: { store_deadline: 5s }
policies:
  - { name: demo, key: [key], limits: [10/minute] }
  - { name: login, key: [ip, user], limits: [5/minute], algorithm: sliding-log }
";

type Metrics = Arc<OnceLock<Box<dyn Fn() -> String + Send + Sync>>>;

fn standing_still() -> (ManualClock, MemoryStore<ManualClock>) {
    let clock = ManualClock::at(Timestamp::from_secs(1_000_000_020));
    (clock.clone(), MemoryStore::builder().clock(clock).build())
}

/// A server in a thread of its own, which ends with the value.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    metrics: Metrics,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// On a clock that stands still, at the beginning of a minute.
    pub(crate) fn start() -> Self {
        Self::allowing(ClientRights::ALL)
    }

    pub(crate) fn allowing(rights: ClientRights) -> Self {
        let (clock, store) = standing_still();
        Self::of(|| store, ListenerConfig::default(), RespOptions::default(), rights, clock)
    }

    pub(crate) fn with(config: ListenerConfig) -> Self {
        let (clock, store) = standing_still();
        Self::of(|| store, config, RespOptions::default(), ClientRights::NONE, clock)
    }

    pub(crate) fn with_password(password: &str) -> Self {
        let (clock, store) = standing_still();
        let options = RespOptions { password: Some(Password::new(password)) };
        Self::of(|| store, ListenerConfig::default(), options, ClientRights::NONE, clock)
    }

    /// With a store that is created where it is used.
    pub(crate) fn on<S: Store + 'static>(store: impl FnOnce() -> S + Send + 'static) -> Self {
        Self::of(
            store,
            ListenerConfig::default(),
            RespOptions::default(),
            ClientRights::ALL,
            ManualClock::at(Timestamp::ZERO),
        )
    }

    fn of<S: Store + 'static>(
        store: impl FnOnce() -> S + Send + 'static,
        config: ListenerConfig,
        options: RespOptions,
        rights: ClientRights,
        clock: ManualClock,
    ) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let metrics = Metrics::default();
        let shown = metrics.clone();
        let thread = thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let app =
                    App::load(&PolicySource::new("test", POLICIES).unwrap(), store()).unwrap();
                let (listener, app) =
                    (tokio::net::TcpListener::from_std(listener).unwrap(), app.with_rights(rights));
                let app = Arc::new(app);
                let page = Arc::clone(&app);
                let _ = shown.set(Box::new(move || {
                    tokio::runtime::Builder::new_current_thread()
                        .build()
                        .unwrap()
                        .block_on(page.metrics_page())
                }));
                let stopped = async { drop(stopped.await) };
                resp::serve(listener, app, config, options, stopped).await;
            });
        });
        Self { address, clock, metrics, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.address, PATIENCE).unwrap()
    }

    pub(crate) fn raw(&self) -> Raw {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Raw(stream)
    }

    pub(crate) fn call(&self, command: &str) -> Reply {
        call(&mut self.connect(), command)
    }

    /// How many commands were refused for this reason.
    pub(crate) fn refused(&self, reason: &str) -> u64 {
        let name = format!("tidegate_refused_total{{listener=\"resp\",reason=\"{reason}\"}} ");
        let page = self.metrics.get().unwrap()();
        let found = page.lines().find_map(|line| line.strip_prefix(&name));
        found.map_or(0, |count| count.parse().unwrap())
    }

    /// Requests a stop, and does not wait for it.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
    }

    /// Waits until the server has stopped.
    pub(crate) fn stopped(&mut self) {
        self.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // A panic in the server fails the test, unless the test has failed already.
            let joined = thread.join();
            assert!(joined.is_ok() || thread::panicking(), "the server panicked");
        }
    }
}

pub(crate) fn call(connection: &mut Connection, command: &str) -> Reply {
    connection.call(&command.split(' ').collect::<Vec<_>>()).unwrap()
}

/// The numbers of a list.
#[track_caller]
pub(crate) fn numbers(reply: &Reply) -> Vec<i64> {
    reply
        .items()
        .iter()
        .filter(|item| matches!(item, Reply::Integer(_)))
        .map(Reply::integer)
        .collect()
}

/// Raw bytes.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads as many bytes as expected, and fails if they differ.
    #[track_caller]
    pub(crate) fn expect(&mut self, expected: &str) {
        let mut bytes = vec![0; expected.len()];
        self.0.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), expected);
    }

    pub(crate) fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Everything until the server closes the connection.
    pub(crate) fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A test should fail rather than wait forever.
const PATIENCE: Duration = Duration::from_secs(20);
