//! Client connections as one stream type: TCP or unix socket, with or without TLS.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// A client's connection: TCP or a unix socket, with TLS over it or without.
#[derive(Debug)]
pub struct ClientStream {
    peer: StreamPeer,
    wire: StreamWire,
}

/// The peer of a connection, as far as the connection itself identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPeer {
    /// The peer's address; a unix socket has none.
    pub address: Option<IpAddr>,
    /// The common name in the peer's verified certificate.
    pub subject: Option<Arc<str>>,
}

#[derive(Debug)]
enum StreamWire {
    Plain(RawStream),
    Tls(Box<TlsStream<RawStream>>),
}

/// A connection without TLS.
#[derive(Debug)]
pub(crate) enum RawStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ClientStream {
    pub(crate) fn over_tls(stream: TlsStream<RawStream>, subject: Option<Arc<str>>) -> Self {
        let address = stream.get_ref().0.address();
        Self { peer: StreamPeer { address, subject }, wire: StreamWire::Tls(Box::new(stream)) }
    }

    /// Whether the connection is encrypted.
    pub const fn is_secure(&self) -> bool {
        matches!(self.wire, StreamWire::Tls(_))
    }

    /// The peer.
    pub const fn peer(&self) -> &StreamPeer {
        &self.peer
    }
}

impl From<RawStream> for ClientStream {
    fn from(plain: RawStream) -> Self {
        let peer = StreamPeer { address: plain.address(), subject: None };
        Self { peer, wire: StreamWire::Plain(plain) }
    }
}

impl From<TcpStream> for ClientStream {
    fn from(stream: TcpStream) -> Self {
        RawStream::Tcp(stream).into()
    }
}

impl RawStream {
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok().map(|address| address.ip()),
            Self::Unix(_) => None,
        }
    }

    /// Turns off Nagle's algorithm: answers are small and complete, and waiting only delays them.
    pub(crate) fn set_nodelay(&self) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
        }
    }
}

/// Evaluates an expression for the stream in whichever variant it is.
macro_rules! inside {
    ($self:ident, $kind:ident { $($variant:ident),+ }, $stream:ident => $call:expr) => {
        match $self {
            $($kind::$variant($stream) => $call,)+
        }
    };
}

macro_rules! pass_on {
    ($kind:ident { $($variant:ident),+ }) => {
        impl AsyncRead for $kind {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let this = self.get_mut();
                inside!(this, $kind { $($variant),+ }, io => Pin::new(io).poll_read(cx, buf))
            }
        }

        impl AsyncWrite for $kind {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let this = self.get_mut();
                inside!(this, $kind { $($variant),+ }, io => Pin::new(io).poll_write(cx, buf))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let this = self.get_mut();
                inside!(this, $kind { $($variant),+ }, io => {
                    Pin::new(io).poll_write_vectored(cx, bufs)
                })
            }

            fn is_write_vectored(&self) -> bool {
                inside!(self, $kind { $($variant),+ }, io => io.is_write_vectored())
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let this = self.get_mut();
                inside!(this, $kind { $($variant),+ }, io => Pin::new(io).poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let this = self.get_mut();
                inside!(this, $kind { $($variant),+ }, io => Pin::new(io).poll_shutdown(cx))
            }
        }
    };
}

pass_on!(RawStream { Tcp, Unix });
pass_on!(StreamWire { Plain, Tls });

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
