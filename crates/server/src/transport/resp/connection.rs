//! One connection, from its first byte to its last.

use std::sync::Arc;

use tidegate::Store;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Door;
use super::batch::{self, Flow};
use super::line::{Heard, Inbox, Line};
use super::session::Session;
use crate::accept::Closing;

/// Answers commands until the client leaves, takes too long, or the server closes.
pub(super) async fn serve<S, IO>(io: IO, door: Arc<Door<S>>, closing: Closing)
where
    S: Store + 'static,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let visit = door.app.redis_clients().enter();
    let mut session = Session::new(visit.id(), &door.config);
    let mut line = Line::new(io, &door.config, closing);
    let mut inbox = Inbox::new();
    let mut anew = true;
    loop {
        let (was_idle, was_closing) = (inbox.is_empty(), line.is_closing());
        match line.hear(&mut inbox, anew).await {
            Heard::Something => {}
            Heard::Nothing => return,
            Heard::End => return line.farewell().await,
        }
        let (taken, flow) = batch::answer(&door, &mut session, &mut line, inbox.bytes()).await;
        inbox.take(taken);
        if flow == Flow::Lost || !line.flush().await {
            return;
        }
        // Of a server that closes, half a command is still heard out, but not one after the other.
        let is_over = line.is_closing() && (inbox.is_empty() || was_closing && taken > 0);
        if flow == Flow::Leave || is_over {
            return line.farewell().await;
        }
        // The time for a command begins with its first byte, however many reads it takes.
        anew = was_idle || taken > 0;
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
