//! Serves one RESP connection, from its first byte to its last.

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
use crate::net::idle::{IdleEnd, close_idle, wait_idle};
use crate::net::seats::{GRACE, QUIET, Seat};

/// Answers commands until the client leaves, takes too long, or the server closes.
///
/// Buffers and timers exist only while something is in progress, not while the client is idle.
pub(super) async fn serve<S, IO>(
    mut io: IO,
    address: Option<IpAddr>,
    context: Arc<RespListenerContext<S>>,
    mut seat: Seat,
) where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = context.app.redis_clients().connect();
    let mut session = RespSession::new(client.id(), address, &context.options);
    let mut protocol = RespProtocol::default();
    let (mut since, mut grace) = (Instant::now(), GRACE);
    loop {
        let until = since + context.config.idle_timeout.min(LONGEST);
        let bytes = match wait_idle(&mut io, &mut seat, since + grace, until).await {
            IdleEnd::Received(bytes) => bytes,
            IdleEnd::ServerClosing => {
                return close_gracefully(io, context.config.body_timeout).await;
            }
            IdleEnd::Closed => return close_idle(io).await,
        };
        let stream = RespStream::new(io, &context.config, seat, protocol);
        match Box::pin(answer_until_pause(stream, &bytes, &context, &mut session)).await {
            Some(idle) => (io, seat, protocol, since) = idle.into_rest(),
            None => return,
        }
        grace = QUIET;
    }
}

/// Answers commands, beginning with `bytes`, until the client pauses.
async fn answer_until_pause<S, IO>(
    mut stream: RespStream<IO>,
    bytes: &[u8],
    context: &RespListenerContext<S>,
    session: &mut RespSession,
) -> Option<RespStream<IO>>
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut input = RespInputBuffer::of(bytes);
    let (mut was_idle, mut was_closing) = (true, stream.is_closing());
    loop {
        let (taken, flow) = batch::answer(context, session, &mut stream, input.bytes()).await;
        input.take(taken);
        if taken > 0 {
            stream.mark_served();
        }
        if flow == RespFlow::WriteFailed || !stream.flush().await {
            return None;
        }
        // A closing server still waits for the rest of a partial command, but only once.
        let is_over = stream.is_closing() && (input.is_empty() || was_closing && taken > 0);
        if flow == RespFlow::Close || is_over {
            stream.close_gracefully().await;
            return None;
        }
        // A command's timeout begins with its first byte, however many reads the command takes.
        let anew = was_idle || taken > 0;
        (was_idle, was_closing) = (input.is_empty(), stream.is_closing());
        match stream.read_more(&mut input, anew).await {
            RespReadOutcome::Bytes => {}
            RespReadOutcome::Pause => {
                // Free the memory: the template is cheap to create again.
                session.remember_command(None);
                return Some(stream);
            }
            RespReadOutcome::Gone => return None,
            RespReadOutcome::ServerCloses => {
                stream.close_gracefully().await;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
