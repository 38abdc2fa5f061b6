//! The accept loop: takes connections in, never dies of an error, and lets go of them gently.
//!
//! Transports of other crates use it too.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Config;

/// Tells a connection to finish what it has begun and then to close.
pub type Closing = watch::Receiver<bool>;

/// Hands each connection to `connect` until `shutdown` resolves; then waits for those that are
/// open, for as long as the drain may take, and drops the rest.
pub async fn run<F>(
    listener: TcpListener,
    config: &Config,
    shutdown: impl Future<Output = ()>,
    connect: impl Fn(TcpStream, Closing) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let (close, closing) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            // Makes room, and is the moment to retry after an accept failed for want of it.
            Some(_) = connections.join_next() => {}
            stream = accept(&listener), if connections.len() < config.max_connections => {
                // Answers are small and complete: waiting to fill a segment only delays them.
                let _ = stream.set_nodelay(true);
                connections.spawn(connect(stream, closing.clone()));
            }
        }
    }
    drop(listener);
    close.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(config.drain_timeout, drained).await.is_err() {
        connections.shutdown().await;
    }
}

/// The next connection, however long that takes.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_the_clients(&error) => {}
            // Out of file descriptors or memory. At once it would fail again, and spin.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether only the connection that was about to be accepted is lost.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

const PAUSE: Duration = Duration::from_millis(100);
