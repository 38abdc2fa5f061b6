//! The accept loop of every transport: seats connections, survives errors, and drains gracefully.
//!
//! Transports in other crates use this loop too.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use crate::net::seats::{GRACE, Seat, SeatGuard, SeatOutcome, SeatPool};
use crate::net::stream::RawStream;
use crate::net::{ClientStream, Listener, ListenerConfig};

/// Becomes true when a connection should finish the request in progress and then close.
pub type ClosingSignal = watch::Receiver<bool>;

/// Hands each connection to `connect` until `shutdown` resolves and the drain delay has passed. Then
/// waits for open connections, up to the drain timeout, and drops the rest.
///
/// Every transport is served by this loop, whatever its connections run over.
pub async fn run<F>(
    listener: impl Into<Listener>,
    config: &ListenerConfig,
    shutdown: impl Future<Output = ()>,
    connect: impl Fn(ClientStream, Seat) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = listener.into();
    let mut connections = AcceptedConnections::new(&listener, config, connect);
    let mut shutdown = pin!(async {
        shutdown.await;
        sleep(config.drain_delay).await;
    });
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            // A connection that ends frees the resources for which an accept may have failed.
            () = connections.wait_for_change() => {}
            plain = accept(&listener) => connections.accept_stream(plain),
        }
    }
    connections.accept_backlog(&listener).await;
    // In this order: when the listener is seen to be closed, open connections have been notified.
    connections.close.send_replace(true);
    drop(listener);
    connections.drain(config.drain_timeout).await;
}

/// The open connections of one listener on one worker, and those that are about to open.
struct AcceptedConnections<C> {
    seats: Arc<SeatPool>,
    /// Connections that found no seat. Others are accepted while these wait.
    queue: JoinSet<Option<(RawStream, SeatGuard)>>,
    tls: Option<(Arc<crate::net::ListenerTls>, Duration)>,
    /// TLS handshakes in progress. Others are accepted while a slow client is in here.
    handshakes: JoinSet<Option<(ClientStream, Seat, u64)>>,
    connections: JoinSet<()>,
    connect: C,
    close: watch::Sender<bool>,
}

impl<C, F> AcceptedConnections<C>
where
    C: Fn(ClientStream, Seat) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    fn new(listener: &Listener, config: &ListenerConfig, connect: C) -> Self {
        let own = || Arc::new(SeatPool::new(config));
        Self {
            seats: listener.seats.clone().unwrap_or_else(own),
            queue: JoinSet::new(),
            tls: listener.tls.clone().map(|tls| (tls, config.header_timeout)),
            handshakes: JoinSet::new(),
            connections: JoinSet::new(),
            connect,
            close: watch::Sender::new(false),
        }
    }

    /// Seats a connection, queues it for a seat, or closes it.
    fn accept_stream(&mut self, plain: RawStream) {
        match self.seats.request_seat(plain.address()) {
            SeatOutcome::Seated(guard) => self.start_seated(plain, guard),
            SeatOutcome::Queued(request) => {
                self.queue.spawn(async move { Some((plain, request.seat().await?)) });
            }
            SeatOutcome::Refused => {}
        }
    }

    fn start_seated(&mut self, plain: RawStream, guard: SeatGuard) {
        plain.set_nodelay();
        let number = guard.number();
        let seat = Seat::new(self.close.subscribe(), guard);
        match self.tls.clone() {
            None => self.begin(plain.into(), seat, number),
            Some((tls, within)) => {
                let handshake = self.handshakes.spawn(async move {
                    let mut idle = seat.idle(Instant::now() + GRACE);
                    let stream = tokio::select! {
                        stream = tls.accept(plain, within) => stream?,
                        () = poll_fn(|cx| idle.poll_wanted(cx)) => return None,
                    };
                    drop(idle);
                    Some((stream, seat, number))
                });
                self.seats.set_abort(number, handshake);
            }
        }
    }

    fn begin(&mut self, stream: ClientStream, seat: Seat, number: u64) {
        let connection = self.connections.spawn((self.connect)(stream, seat));
        self.seats.set_abort(number, connection);
    }

    /// Waits until a connection ends, gets a seat, or completes its handshake. Without any connection,
    /// waits forever.
    async fn wait_for_change(&mut self) {
        tokio::select! {
            Some(_) = self.connections.join_next() => {}
            Some(handshake) = self.handshakes.join_next() => {
                if let Ok(Some((stream, seat, number))) = handshake {
                    self.begin(stream, seat, number);
                }
            }
            Some(seated) = self.queue.join_next() => {
                if let Ok(Some((plain, guard))) = seated {
                    self.start_seated(plain, guard);
                }
            }
            else => std::future::pending().await,
        }
    }

    /// Accepts connections that arrived before the listener closed, while there are seats: the system
    /// has completed their TCP handshakes already. Connections that wait for a seat are dropped.
    async fn accept_backlog(&mut self, listener: &Listener) {
        // Lets the runtime notice new connections.
        yield_now().await;
        self.queue.shutdown().await;
        while let Poll::Ready(Ok(plain)) = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await
        {
            match self.seats.request_seat(plain.address()) {
                SeatOutcome::Seated(guard) => self.start_seated(plain, guard),
                SeatOutcome::Queued(_) | SeatOutcome::Refused => return,
            }
        }
    }

    async fn drain(mut self, within: Duration) {
        let drained = async {
            while !(self.connections.is_empty() && self.handshakes.is_empty()) {
                self.wait_for_change().await;
            }
        };
        if timeout(within, drained).await.is_err() {
            self.handshakes.shutdown().await;
            self.connections.shutdown().await;
        }
    }
}

/// The next connection, however long that takes.
async fn accept(listener: &Listener) -> RawStream {
    loop {
        match poll_fn(|cx| listener.poll_accept(cx)).await {
            Ok(plain) => return plain,
            Err(error) if is_client_error(&error) => {}
            // Out of file descriptors or memory. An immediate retry would fail again, and spin.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether the error concerns only the connection that was about to be accepted.
fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

const PAUSE: Duration = Duration::from_millis(100);
