//! Listeners: the open sockets from which transports accept connections.

mod tcp;
mod unix;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::net::{TcpListener, UnixListener};

use self::unix::SocketFile;
use crate::net::seats::SeatPool;
use crate::net::stream::RawStream;
use crate::net::{ListenAddress, ListenError, ListenerTls};

/// The sockets of one address, one for each worker: the system spreads connections over them, and a
/// connection stays with the worker that accepted it.
#[derive(Debug)]
pub(crate) struct ListenerSockets {
    sockets: Vec<BoundSocket>,
    address: BoundAddress,
    /// Removed from the file system when the listener is dropped.
    file: Option<SocketFile>,
}

/// A socket that does not belong to a runtime yet.
#[derive(Debug)]
enum BoundSocket {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

/// The address that a listener is bound to, with its actual port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl ListenerSockets {
    /// Listens with as many sockets as there are workers.
    pub(crate) fn open(address: &ListenAddress, workers: usize) -> Result<Self, ListenError> {
        match address {
            ListenAddress::Tcp(_) => {
                let (sockets, bound) = tcp::bind(address, workers)?;
                let sockets = sockets.into_iter().map(BoundSocket::Tcp).collect();
                Ok(Self { sockets, address: BoundAddress::Tcp(bound), file: None })
            }
            ListenAddress::Unix(path) => {
                let refused = |error| address.unavailable(error);
                let (socket, file) = unix::bind(path).map_err(refused)?;
                let copies = (1..workers).map(|_| socket.try_clone().map(BoundSocket::Unix));
                let mut sockets = copies.collect::<io::Result<Vec<_>>>().map_err(refused)?;
                sockets.push(BoundSocket::Unix(socket));
                Ok(Self { sockets, address: BoundAddress::Unix(path.clone()), file: Some(file) })
            }
        }
    }

    pub(crate) const fn address(&self) -> &BoundAddress {
        &self.address
    }

    /// One worker's listener, on the current runtime. The connections of all workers share `seats`.
    pub(crate) fn take(
        &mut self,
        seats: &Arc<SeatPool>,
        tls: Option<&Arc<ListenerTls>>,
    ) -> io::Result<Option<Listener>> {
        let seats = Some(Arc::clone(seats));
        let listener = |socket| Listener { socket, seats, tls: tls.cloned(), _file: None };
        Ok(self.socket()?.map(listener))
    }

    fn socket(&mut self) -> io::Result<Option<ListenerSocket>> {
        Ok(match self.sockets.pop() {
            None => None,
            Some(BoundSocket::Tcp(socket)) => {
                Some(ListenerSocket::Tcp(TcpListener::from_std(socket)?))
            }
            Some(BoundSocket::Unix(socket)) => {
                Some(ListenerSocket::Unix(UnixListener::from_std(socket)?))
            }
        })
    }
}

impl BoundAddress {
    /// Whether only programs on this machine can reach this address.
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl From<SocketAddr> for BoundAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket from which a transport accepts connections. Any tokio listener converts into one.
#[derive(Debug)]
pub struct Listener {
    socket: ListenerSocket,
    /// The seats that this listener shares with those of other workers, if it does.
    pub(crate) seats: Option<Arc<SeatPool>>,
    pub(crate) tls: Option<Arc<ListenerTls>>,
    /// Removed from the file system when the listener is dropped.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens with one socket, on the current runtime.
    pub fn open(address: &ListenAddress) -> Result<(Self, BoundAddress), ListenError> {
        let mut sockets = ListenerSockets::open(address, 1)?;
        let socket = sockets.socket().map_err(|error| address.unavailable(error))?;
        let socket = socket.ok_or_else(|| address.unavailable(io::ErrorKind::NotFound.into()))?;
        let listener = Self { socket, seats: None, tls: None, _file: sockets.file };
        Ok((listener, sockets.address))
    }

    /// Serves TLS on every connection.
    #[must_use]
    pub fn with_tls(self, tls: Arc<ListenerTls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Whether this is a TCP listener on a loopback address.
    pub(crate) fn is_on_loopback(&self) -> bool {
        match &self.socket {
            ListenerSocket::Tcp(socket) => {
                socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            ListenerSocket::Unix(_) => false,
        }
    }

    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<RawStream>> {
        Poll::Ready(match &self.socket {
            ListenerSocket::Tcp(socket) => {
                ready!(socket.poll_accept(cx)).map(|(stream, _)| RawStream::Tcp(stream))
            }
            ListenerSocket::Unix(socket) => {
                ready!(socket.poll_accept(cx)).map(|(stream, _)| RawStream::Unix(stream))
            }
        })
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self { socket: ListenerSocket::Tcp(socket), seats: None, tls: None, _file: None }
    }
}

impl From<UnixListener> for Listener {
    fn from(socket: UnixListener) -> Self {
        Self { socket: ListenerSocket::Unix(socket), seats: None, tls: None, _file: None }
    }
}
