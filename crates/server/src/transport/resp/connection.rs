//! One connection, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;

use tidegate::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::RespListenerContext;
use super::batch::{self, RespFlow};
use super::reply::RespProtocol;
use super::session::RespSession;
use super::stream::{LONGEST, RespInputBuffer, RespReadOutcome, RespStream, close_gracefully};
use crate::idle::{IdleEnd, close_idle, wait_idle};
use crate::seats::{GRACE, QUIET, Seat};

/// Answers commands until the client leaves, takes too long, or the server closes.
///
/// Buffers and timers are there while something is under way, and gone while the client is silent.
pub(super) async fn serve<S, IO>(
    mut io: IO,
    address: Option<IpAddr>,
    door: Arc<RespListenerContext<S>>,
    mut seat: Seat,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let visit = door.app.redis_clients().connect();
    let mut session = RespSession::new(visit.id(), address, &door.config);
    let mut protocol = RespProtocol::default();
    let (mut since, mut grace) = (Instant::now(), GRACE);
    loop {
        let until = since + door.config.idle_timeout.min(LONGEST);
        let bytes = match wait_idle(&mut io, &mut seat, since + grace, until).await {
            IdleEnd::Received(bytes) => bytes,
            IdleEnd::ServerClosing => return close_gracefully(io, door.config.body_timeout).await,
            IdleEnd::Closed => return close_idle(io).await,
        };
        let line = RespStream::new(io, &door.config, seat, protocol);
        match Box::pin(answer_until_pause(line, &bytes, &door, &mut session)).await {
            Some(silent) => (io, seat, protocol, since) = silent.into_rest(),
            None => return,
        }
        grace = QUIET;
    }
}

/// Answers what comes, `bytes` first, until there is a pause.
async fn answer_until_pause<S, IO>(
    mut line: RespStream<IO>,
    bytes: &[u8],
    door: &RespListenerContext<S>,
    session: &mut RespSession,
) -> Option<RespStream<IO>>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut inbox = RespInputBuffer::of(bytes);
    let (mut was_idle, mut was_closing) = (true, line.is_closing());
    loop {
        let (taken, flow) = batch::answer(door, session, &mut line, inbox.bytes()).await;
        inbox.take(taken);
        if taken > 0 {
            line.mark_served();
        }
        if flow == RespFlow::WriteFailed || !line.flush().await {
            return None;
        }
        // Of a server that closes, half a command is still heard out, but not one after the other.
        let is_over = line.is_closing() && (inbox.is_empty() || was_closing && taken > 0);
        if flow == RespFlow::Close || is_over {
            line.close_gracefully().await;
            return None;
        }
        // The time for a command begins with its first byte, however many reads it takes.
        let anew = was_idle || taken > 0;
        (was_idle, was_closing) = (inbox.is_empty(), line.is_closing());
        match line.read_more(&mut inbox, anew).await {
            RespReadOutcome::Bytes => {}
            RespReadOutcome::Pause => {
                // What it asked last is soon known again.
                session.remember_command(None);
                return Some(line);
            }
            RespReadOutcome::Gone => return None,
            RespReadOutcome::ServerCloses => {
                line.close_gracefully().await;
                return None;
            }
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
