//! Listeners: where connections come from.

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
use crate::room::Room;
use crate::stream::Plain;
use crate::{Address, OpenError, Tls};

/// An open address, with a socket for each worker: the system spreads connections over them, and a
/// connection stays with the worker that got it.
#[derive(Debug)]
pub(crate) struct Opened {
    sockets: Vec<Bound>,
    place: Place,
    /// Removed when nobody listens any more.
    file: Option<SocketFile>,
}

/// A socket that does not belong to a runtime yet.
#[derive(Debug)]
enum Bound {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

/// The address on which a listener was opened, with its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Opened {
    /// Listens with as many sockets as there are workers.
    pub(crate) fn open(address: &Address, workers: usize) -> Result<Self, OpenError> {
        match address {
            Address::Tcp(_) => {
                let (sockets, place) = tcp::bind(address, workers)?;
                let sockets = sockets.into_iter().map(Bound::Tcp).collect();
                Ok(Self { sockets, place: Place::Tcp(place), file: None })
            }
            Address::Unix(path) => {
                let refused = |error| address.unavailable(error);
                let (socket, file) = unix::bind(path).map_err(refused)?;
                let copies = (1..workers).map(|_| socket.try_clone().map(Bound::Unix));
                let mut sockets = copies.collect::<io::Result<Vec<_>>>().map_err(refused)?;
                sockets.push(Bound::Unix(socket));
                Ok(Self { sockets, place: Place::Unix(path.clone()), file: Some(file) })
            }
        }
    }

    pub(crate) const fn place(&self) -> &Place {
        &self.place
    }

    /// One worker's listener, on the current runtime. The connections of all workers share `room`.
    pub(crate) fn take(
        &mut self,
        room: &Arc<Room>,
        tls: Option<&Arc<Tls>>,
    ) -> io::Result<Option<Listener>> {
        let room = Some(Arc::clone(room));
        let listener = |socket| Listener { socket, room, tls: tls.cloned(), _file: None };
        Ok(self.socket()?.map(listener))
    }

    fn socket(&mut self) -> io::Result<Option<Socket>> {
        Ok(match self.sockets.pop() {
            None => None,
            Some(Bound::Tcp(socket)) => Some(Socket::Tcp(TcpListener::from_std(socket)?)),
            Some(Bound::Unix(socket)) => Some(Socket::Unix(UnixListener::from_std(socket)?)),
        })
    }
}

impl Place {
    /// Whether only programs on this machine can reach it.
    pub const fn is_of_this_machine(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where a transport gets its connections from. Any tokio listener can be converted into one.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    /// How many connections there is room for, if that is shared with others.
    pub(crate) room: Option<Arc<Room>>,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Removed when nobody listens any more.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens with one socket, on the current runtime.
    pub fn open(address: &Address) -> Result<(Self, Place), OpenError> {
        let mut opened = Opened::open(address, 1)?;
        let socket = opened.socket().map_err(|error| address.unavailable(error))?;
        let socket = socket.ok_or_else(|| address.unavailable(io::ErrorKind::NotFound.into()))?;
        let listener = Self { socket, room: None, tls: None, _file: opened.file };
        Ok((listener, opened.place))
    }

    /// Serves TLS on every connection.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Whether it has an address that only programs on this machine can reach.
    pub(crate) fn is_on_loopback(&self) -> bool {
        match &self.socket {
            Socket::Tcp(socket) => {
                socket.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback())
            }
            Socket::Unix(_) => false,
        }
    }

    pub(crate) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Plain>> {
        Poll::Ready(match &self.socket {
            Socket::Tcp(socket) => {
                ready!(socket.poll_accept(cx)).map(|(stream, _)| Plain::Tcp(stream))
            }
            Socket::Unix(socket) => {
                ready!(socket.poll_accept(cx)).map(|(stream, _)| Plain::Unix(stream))
            }
        })
    }
}

impl From<TcpListener> for Listener {
    fn from(socket: TcpListener) -> Self {
        Self { socket: Socket::Tcp(socket), room: None, tls: None, _file: None }
    }
}

impl From<UnixListener> for Listener {
    fn from(socket: UnixListener) -> Self {
        Self { socket: Socket::Unix(socket), room: None, tls: None, _file: None }
    }
}
