//! A connection before it is shared: one command, one reply.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, ServerError, Value};
use socket2::{SockRef, TcpKeepalive};
use tidegate_store::StoreErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::failure::RedisFailure;
use super::reply::RedisReply;
use super::tls;
use crate::RedisConfig;
use crate::url::RedisAddress;

/// A byte stream: TCP, TLS or a Unix socket.
pub(super) trait ConnectionStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ConnectionStream for S {}

/// A connection to one server.
pub(super) struct RawConnection {
    pub(super) stream: Box<dyn ConnectionStream>,
    pub(super) address: RedisAddress,
}

impl RawConnection {
    /// Connects. Names are looked up each time.
    pub(super) async fn open(
        address: &RedisAddress,
        config: &Arc<RedisConfig>,
    ) -> Result<Self, RedisFailure> {
        let stream: Box<dyn ConnectionStream> = match address {
            RedisAddress::Unix(path) => {
                Box::new(UnixStream::connect(path).await.map_err(|error| io_failure(&error))?)
            }
            RedisAddress::Tcp { host, port } => {
                let stream = tcp(host, *port, config.connect_timeout).await?;
                match config.url.tls {
                    true => Box::new(tls::secure(stream, host, config).await?),
                    false => Box::new(stream),
                }
            }
        };
        Ok(Self { stream, address: address.clone() })
    }

    /// Sends a command and reads its reply. The outer error means that there is no reply and never will
    /// be.
    pub(super) async fn ask(
        &mut self,
        command: &Cmd,
    ) -> Result<Result<RedisReply, ServerError>, RedisFailure> {
        // A server that has no room for another client sends an error and closes the connection,
        // perhaps before the command is written. The error can be read all the same.
        let sent = self.stream.write_all(&command.get_packed_command()).await;
        let flushed = self.stream.flush().await;
        let answer =
            redis::parse_redis_value_async(&mut Default::default(), &mut self.stream).await;
        match (answer, sent.and(flushed)) {
            (Ok(Value::ServerError(error)), _) => Ok(Err(error)),
            (Ok(value), _) => Ok(Ok(RedisReply::of(value)?)),
            (Err(error), _) if error.kind() == redis::ErrorKind::Parse => {
                Err(RedisFailure::not_run(StoreErrorKind::Protocol, error.to_string()))
            }
            (Err(_), Err(error)) => Err(io_failure(&error)),
            (Err(error), Ok(())) => {
                Err(RedisFailure::not_run(StoreErrorKind::Unreachable, error.to_string()))
            }
        }
    }

    /// Subscribes, and calls `on_message` for each message until the connection fails. If the server
    /// refuses the subscription, waits forever.
    pub(super) async fn listen(
        mut self,
        subscription: &Cmd,
        on_message: impl Fn(),
    ) -> RedisFailure {
        let sent = self.stream.write_all(&subscription.get_packed_command()).await;
        if let Err(error) = sent.and(self.stream.flush().await) {
            return io_failure(&error);
        }
        let mut decoder = Default::default();
        loop {
            match redis::parse_redis_value_async(&mut decoder, &mut self.stream).await {
                Ok(Value::ServerError(_)) => std::future::pending().await,
                Ok(_) => on_message(),
                Err(error) => return RedisFailure::of_client(&error),
            }
        }
    }

    /// [`ask`](Self::ask), where an error reply is a failure too.
    pub(super) async fn ask_or_fail(&mut self, command: &Cmd) -> Result<RedisReply, RedisFailure> {
        self.ask(command).await?.map_err(|error| RedisFailure::of_server(&error))
    }
}

/// How many lookups may be in progress in this process. A lookup cannot be cancelled, and each
/// occupies a thread for as long as the name servers do not answer.
static LOOKUPS: Semaphore = Semaphore::const_new(8);

async fn tcp(host: &str, port: u16, patience: Duration) -> Result<TcpStream, RedisFailure> {
    let addresses = lookup(host, port).await?;
    // An address that does not answer must leave time for the next one.
    let share = patience / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::other("the name has no address");
    for address in addresses {
        match timeout(share, connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::new(io::ErrorKind::TimedOut, "no answer"),
        }
    }
    Err(io_failure(&last))
}

async fn lookup(host: &str, port: u16) -> Result<Vec<SocketAddr>, RedisFailure> {
    let unreachable = |message: String| RedisFailure::not_run(StoreErrorKind::Unreachable, message);
    let permit = LOOKUPS
        .try_acquire()
        .map_err(|_| unreachable("too many name lookups are in progress".to_owned()))?;
    let name = (host.to_owned(), port);
    // In a task of its own, which holds the permit until the thread is free again.
    let lookup = tokio::spawn(async move {
        let found = tokio::net::lookup_host(name).await.map(Iterator::collect);
        drop(permit);
        found
    });
    match lookup.await {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(unreachable(format!("no address found: {error}"))),
        Err(_) => Err(unreachable("the name lookup was aborted".to_owned())),
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(stream)
}

/// How soon a peer that vanished silently is noticed. The kernel's defaults are a quarter of an hour
/// with something to send, and two hours without.
const UNACKNOWLEDGED: Duration = Duration::from_secs(2);
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);

fn io_failure(error: &io::Error) -> RedisFailure {
    let kind = match error.kind() {
        // Only the operator can grant access to a socket.
        io::ErrorKind::PermissionDenied => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Unreachable,
    };
    RedisFailure::not_run(kind, error.to_string())
}
