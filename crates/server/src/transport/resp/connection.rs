//! One connection, from its first byte to its last.

use std::net::IpAddr;
use std::sync::Arc;

use tidegate::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::Door;
use super::batch::{self, Flow};
use super::line::{Heard, Inbox, LONGEST, Line, farewell};
use super::reply::Protocol;
use super::session::Session;
use crate::rest::{Stirred, leave, rest};
use crate::room::{GRACE, QUIET, Seat};

/// Answers commands until the client leaves, takes too long, or the server closes.
///
/// Buffers and timers are there while something is under way, and gone while the client is silent.
pub(super) async fn serve<S, IO>(
    mut io: IO,
    address: Option<IpAddr>,
    door: Arc<Door<S>>,
    mut seat: Seat,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let visit = door.app.redis_clients().enter();
    let mut session = Session::new(visit.id(), address, &door.config);
    let mut protocol = Protocol::default();
    let (mut since, mut grace) = (Instant::now(), GRACE);
    loop {
        let until = since + door.config.idle_timeout.min(LONGEST);
        let bytes = match rest(&mut io, &mut seat, since + grace, until).await {
            Stirred::Heard(bytes) => bytes,
            Stirred::Told => return farewell(io, door.config.body_timeout).await,
            Stirred::Over => return leave(io).await,
        };
        let line = Line::new(io, &door.config, seat, protocol);
        match Box::pin(converse(line, &bytes, &door, &mut session)).await {
            Some(silent) => (io, seat, protocol, since) = silent.rest(),
            None => return,
        }
        grace = QUIET;
    }
}

/// Answers what comes, `bytes` first, until there is a pause.
async fn converse<S, IO>(
    mut line: Line<IO>,
    bytes: &[u8],
    door: &Door<S>,
    session: &mut Session,
) -> Option<Line<IO>>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut inbox = Inbox::of(bytes);
    let (mut was_idle, mut was_closing) = (true, line.is_closing());
    loop {
        let (taken, flow) = batch::answer(door, session, &mut line, inbox.bytes()).await;
        inbox.take(taken);
        if taken > 0 {
            line.serves();
        }
        if flow == Flow::Lost || !line.flush().await {
            return None;
        }
        // Of a server that closes, half a command is still heard out, but not one after the other.
        let is_over = line.is_closing() && (inbox.is_empty() || was_closing && taken > 0);
        if flow == Flow::Leave || is_over {
            line.farewell().await;
            return None;
        }
        // The time for a command begins with its first byte, however many reads it takes.
        let anew = was_idle || taken > 0;
        (was_idle, was_closing) = (inbox.is_empty(), line.is_closing());
        match line.hear(&mut inbox, anew).await {
            Heard::Something => {}
            Heard::Pause => {
                // What it asked last is soon known again.
                session.remember(None);
                return Some(line);
            }
            Heard::Nothing => return None,
            Heard::End => {
                line.farewell().await;
                return None;
            }
        }
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
