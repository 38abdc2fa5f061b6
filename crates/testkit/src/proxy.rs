//! A TCP proxy that fails on demand.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::accept_loop::{AcceptLoop, ConnectionRegister};
use crate::link::{Link, Switch};
use crate::process::{free_port, local};
use crate::setup::RedisBuilder;
use crate::wait::{PATIENCE, wait_until};

/// What a [`Proxy`] does with the bytes that pass through it. A reply is what one read returns from the
/// server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwards everything unchanged.
    Forward,
    /// Forwards every reply this much later.
    Delay(Duration),
    /// Accepts connections, but forwards nothing. What was held back is forwarded when the mode
    /// changes, as when a network heals.
    Blackhole,
    /// Forwards requests, and swallows the replies.
    DropReplies,
    /// Resets the open connections (RST, not an orderly close), and forwards from then on.
    Reset,
    /// Closes new connections immediately. Open ones continue.
    Refuse,
    /// Sends these bytes instead of each reply.
    Garbage(Vec<u8>),
    /// Forwards this many bytes of the next reply, and closes the connection.
    Truncate(usize),
}

/// A TCP proxy between a client and a server, whose mode applies to all connections, open and new.
/// Closed when dropped.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    accept_loop: AcceptLoop,
}

#[derive(Debug)]
struct Shared {
    /// Where new connections lead.
    upstream: Mutex<SocketAddr>,
    switch: Switch,
    links: ConnectionRegister<Link>,
    connections: AtomicU64,
    bytes_up: AtomicU64,
}

impl Proxy {
    /// Listens on a port of its own, and forwards to `upstream`.
    pub fn start(upstream: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            switch: Switch::new(),
            links: ConnectionRegister::new(),
            connections: AtomicU64::new(0),
            bytes_up: AtomicU64::new(0),
        });
        let served = Arc::clone(&shared);
        Self { shared, accept_loop: AcceptLoop::start(move |client| served.serve(client)) }
    }

    /// Configures a server that will be behind a proxy, and announces the proxy's address: `announce` is
    /// the prefix of the settings for that.
    pub(crate) fn before(server: RedisBuilder, announce: &str) -> (RedisBuilder, Self) {
        let port = free_port();
        let proxy = Self::start(local(port));
        let server = server
            .port(port)
            .arg(&format!("{announce}-ip"), "127.0.0.1")
            .arg(&format!("{announce}-port"), &proxy.port().to_string());
        (server, proxy)
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.accept_loop.address()
    }

    /// The port of [`address`](Self::address).
    pub fn port(&self) -> u16 {
        self.address().port()
    }

    /// Where clients find it: `redis://127.0.0.1:6379`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Changes what it does.
    pub fn set_mode(&self, mode: Mode) {
        if mode == Mode::Reset {
            self.shared.switch.set(Mode::Forward);
            self.shared.reset(self.shared.links.take());
        } else {
            self.shared.switch.set(mode);
        }
    }

    /// Holds back everything on the open connections, for good. New ones are not affected, as when a
    /// firewall forgets its connections, or a failed host is replaced.
    pub fn freeze(&self) {
        self.shared.links.list().iter().for_each(|link| link.freeze());
    }

    /// Forwards new connections to another server. Open ones stay where they are.
    pub fn redirect(&self, upstream: SocketAddr) {
        *self.shared.upstream.lock().unwrap() = upstream;
    }

    /// How many connections it has accepted so far, refused ones too.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many of them are open.
    pub fn open_connections(&self) -> usize {
        self.shared.links.len()
    }

    /// How many bytes it has forwarded to the server so far.
    pub fn bytes_up(&self) -> u64 {
        self.shared.bytes_up.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.reset(self.shared.links.close());
    }
}

impl Shared {
    fn serve(&self, client: TcpStream) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        if self.switch.mode() == Mode::Refuse {
            return;
        }
        if let Some(link) = self.links.register(Link::new(client)) {
            let upstream = *self.upstream.lock().unwrap();
            link.run(upstream, &self.switch, &self.bytes_up);
        }
    }

    /// Resets connections, and returns once they are gone: the reset goes out with the last
    /// reference to them, which is ours.
    fn reset(&self, links: Vec<Arc<Link>>) {
        links.iter().for_each(|link| link.reset(&self.switch));
        let is_ours = |link| Arc::strong_count(link) == 1;
        wait_until("threads to let go", PATIENCE, || links.iter().all(is_ours));
    }
}
