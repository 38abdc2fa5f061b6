//! The accept loop: accepts connections, never dies of an error, and closes them gracefully.
//!
//! Transports in other crates use it too.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use crate::seats::{GRACE, Seat, SeatGuard, SeatOutcome, SeatPool};
use crate::stream::RawStream;
use crate::{ClientStream, Listener, ListenerConfig};

/// Tells a connection to finish what it has begun and then to close.
pub type ClosingSignal = watch::Receiver<bool>;

/// Hands each connection to `connect` until `shutdown` resolves and the delay after it is over;
/// then waits for open connections, for as long as the drain may take, and drops the rest.
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
    let mut crowd = AcceptedConnections::new(&listener, config, connect);
    let mut shutdown = pin!(async {
        shutdown.await;
        sleep(config.drain_delay).await;
    });
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            // Makes room, and is the moment to retry after an accept failed for lack of it.
            () = crowd.wait_for_change() => {}
            plain = accept(&listener) => crowd.accept_stream(plain),
        }
    }
    crowd.accept_backlog(&listener).await;
    // In this order: anyone who finds the listener closed knows that open connections were told.
    crowd.close.send_replace(true);
    drop(listener);
    crowd.drain(config.drain_timeout).await;
}

/// Open connections, and those that are about to be.
struct AcceptedConnections<C> {
    room: Arc<SeatPool>,
    /// Those for whom there was no seat when they came. Nobody else waits for them.
    queue: JoinSet<Option<(RawStream, SeatGuard)>>,
    tls: Option<(Arc<crate::ListenerTls>, Duration)>,
    /// A slow client here keeps nobody else from being accepted.
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
            room: listener.room.clone().unwrap_or_else(own),
            queue: JoinSet::new(),
            tls: listener.tls.clone().map(|tls| (tls, config.header_timeout)),
            handshakes: JoinSet::new(),
            connections: JoinSet::new(),
            connect,
            close: watch::Sender::new(false),
        }
    }

    /// Admits a client, has it wait for a seat, or closes its connection.
    fn accept_stream(&mut self, plain: RawStream) {
        match self.room.request_seat(plain.address()) {
            SeatOutcome::Seated(hold) => self.start_seated(plain, hold),
            SeatOutcome::Queued(ticket) => {
                self.queue.spawn(async move { Some((plain, ticket.seat().await?)) });
            }
            SeatOutcome::Refused => {}
        }
    }

    fn start_seated(&mut self, plain: RawStream, hold: SeatGuard) {
        plain.set_nodelay();
        let number = hold.number();
        let seat = Seat::new(self.close.subscribe(), hold);
        match self.tls.clone() {
            None => self.begin(plain.into(), seat, number),
            Some((tls, within)) => {
                let handshake = self.handshakes.spawn(async move {
                    let mut rest = seat.idle(Instant::now() + GRACE);
                    let stream = tokio::select! {
                        stream = tls.accept(plain, within) => stream?,
                        () = poll_fn(|cx| rest.poll_wanted(cx)) => return None,
                    };
                    drop(rest);
                    Some((stream, seat, number))
                });
                self.room.set_abort(number, handshake);
            }
        }
    }

    fn begin(&mut self, stream: ClientStream, seat: Seat, number: u64) {
        let connection = self.connections.spawn((self.connect)(stream, seat));
        self.room.set_abort(number, connection);
    }

    /// Waits until a connection has ended, has a seat or has completed its handshake. Forever, if
    /// there is none.
    async fn wait_for_change(&mut self) {
        tokio::select! {
            Some(_) = self.connections.join_next() => {}
            Some(known) = self.handshakes.join_next() => {
                if let Ok(Some((stream, seat, number))) = known {
                    self.begin(stream, seat, number);
                }
            }
            Some(turn) = self.queue.join_next() => {
                if let Ok(Some((plain, hold))) = turn {
                    self.start_seated(plain, hold);
                }
            }
            else => std::future::pending().await,
        }
    }

    /// Admits clients that came before the listener closed, while there are seats: the system has
    /// answered them already. Who waits for a seat now waits for nothing.
    async fn accept_backlog(&mut self, listener: &Listener) {
        // Lets the runtime see who has come.
        yield_now().await;
        self.queue.shutdown().await;
        while let Poll::Ready(Ok(plain)) = poll_fn(|cx| Poll::Ready(listener.poll_accept(cx))).await
        {
            match self.room.request_seat(plain.address()) {
                SeatOutcome::Seated(hold) => self.start_seated(plain, hold),
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
            // Out of file descriptors or memory. Retrying immediately would fail again, and spin.
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Whether only the connection that was about to be accepted is lost.
fn is_client_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset
    )
}

const PAUSE: Duration = Duration::from_millis(100);
