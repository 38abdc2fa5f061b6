//! A connection that many callers share.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, Value};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::call::{ScriptCall, asking};
use super::failure::{RedisFailure, RedisRefusal};
use super::reply::RedisReply;
use crate::url::RedisAddress;

/// A connection that many callers share.
#[derive(Debug)]
pub(super) struct SharedConnection {
    connection: MultiplexedConnection,
    address: RedisAddress,
    since: Instant,
    /// Set once no further reply will arrive.
    closed: Arc<AtomicBool>,
    /// Why the connection must be replaced, once there is a reason.
    fault: OnceLock<ConnectionFault>,
    /// Deadlines missed since the last answer.
    missed: AtomicU32,
}

/// Why a connection that is still open must be replaced.
#[derive(Clone, Debug)]
pub(super) enum ConnectionFault {
    /// The server refuses writes, because it is not a primary.
    Demoted(RedisFailure),
    /// Too many deadlines passed without an answer.
    Silent,
    /// A call got the reply to another one.
    Mismatched(RedisFailure),
}

/// Why a call got no reply.
#[derive(Debug)]
pub(super) enum CallError {
    /// The server refused it.
    Refused(RedisRefusal),
    /// The connection failed, and whether the call ran is unknown.
    Broken(RedisFailure),
    /// The reply belongs to another call, as will all later ones on this connection.
    Mismatched(RedisFailure),
}

impl SharedConnection {
    pub(super) fn new(
        connection: MultiplexedConnection,
        driver: impl Future<Output = ()> + Send + 'static,
        address: RedisAddress,
    ) -> (Self, ConnectionDriver) {
        let closed = Arc::new(AtomicBool::new(false));
        let closing = ConnectionCloseGuard(Arc::clone(&closed));
        let task = tokio::spawn(async move {
            let _closing = closing;
            driver.await;
        });
        let shared = Self {
            connection,
            address,
            since: Instant::now(),
            closed,
            fault: OnceLock::new(),
            missed: AtomicU32::new(0),
        };
        (shared, ConnectionDriver(task))
    }

    /// The same connection, with a clean record.
    pub(super) fn with_clean_record(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            address: self.address.clone(),
            since: self.since,
            closed: Arc::clone(&self.closed),
            fault: OnceLock::new(),
            missed: AtomicU32::new(0),
        }
    }

    pub(super) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) const fn address(&self) -> &RedisAddress {
        &self.address
    }

    /// Whether a call may be sent.
    pub(super) fn is_usable(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.fault.get().is_none()
    }

    pub(super) fn fault(&self) -> Option<&ConnectionFault> {
        self.fault.get()
    }

    /// Records a fault. Returns false if there is one already.
    pub(super) fn record_fault(&self, fault: ConnectionFault) -> bool {
        self.fault.set(fault).is_ok()
    }

    /// Counts a missed deadline; returns how many in a row that makes.
    pub(super) fn count_missed(&self) -> u32 {
        self.missed.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    fn reset_missed(&self) {
        // Nearly always zero already, and then no other core's cache is disturbed.
        if self.missed.load(Ordering::Relaxed) != 0 {
            self.missed.store(0, Ordering::Relaxed);
        }
    }

    /// Runs a script: by its hash, or by its text if the server does not know the hash, which it checks
    /// before it runs anything.
    pub(super) async fn run(
        &self,
        call: &ScriptCall,
        to_importing: bool,
    ) -> Result<RedisReply, CallError> {
        let outcome = match self.send(call.by_hash(), to_importing).await {
            Err(CallError::Refused(RedisRefusal::NoScript)) => {
                self.send(&call.by_text(), to_importing).await
            }
            outcome => outcome,
        };
        call.check_mark(outcome?)
            .map_err(|failure| CallError::Mismatched(failure.at(&self.address)))
    }

    /// Sends one command; with `to_importing` set, to a node that is about to take over its slot.
    pub(super) async fn send(
        &self,
        command: &Cmd,
        to_importing: bool,
    ) -> Result<RedisReply, CallError> {
        let mut connection = self.connection.clone();
        let answer = match to_importing {
            false => connection.send_packed_command(command).await,
            true => last(connection.send_packed_commands(&asking(command), 0, 2).await),
        };
        match answer {
            Ok(Value::ServerError(error)) => {
                self.reset_missed();
                Err(CallError::Refused(RedisRefusal::of(&error, &self.address)))
            }
            Ok(value) => {
                self.reset_missed();
                RedisReply::of(value).map_err(CallError::Broken)
            }
            Err(error) => Err(CallError::Broken(RedisFailure::of_client(&error).at(&self.address))),
        }
    }

    /// Returns when the server answers, however late that is.
    pub(super) async fn wait_for_answer(&self) {
        let mut connection = self.connection.clone();
        connection.set_response_timeout(FOREVER);
        if connection.send_packed_command(&redis::cmd("PING")).await.is_err() {
            // It never will. The caller also waits for a new connection.
            std::future::pending::<()>().await;
        }
    }
}

/// As good as forever: the client requires a limit.
const FOREVER: Duration = Duration::from_secs(3_600);

fn last(answers: RedisResult<Vec<Value>>) -> RedisResult<Value> {
    Ok(answers?.pop().unwrap_or(Value::Nil))
}

/// The task that reads and writes for a connection. It ends when the connection does, and the
/// connection ends when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionDriver(JoinHandle<()>);

/// Ready once the connection has ended, however often it is polled.
impl Future for ConnectionDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.0.is_finished() {
            true => Poll::Ready(()),
            false => Pin::new(&mut self.0).poll(context).map(|_| ()),
        }
    }
}

impl Drop for ConnectionDriver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Marks a connection closed, however its driver ends.
struct ConnectionCloseGuard(Arc<AtomicBool>);

impl Drop for ConnectionCloseGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
