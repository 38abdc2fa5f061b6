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
    while line.hear(&mut inbox, anew).await == Heard::Something {
        let (taken, flow) = batch::answer(&door, &mut session, &mut line, inbox.bytes()).await;
        inbox.take(taken);
        if !line.flush().await {
            return;
        }
        match flow {
            Flow::Stay => {}
            Flow::Leave => return line.farewell().await,
        }
        if line.is_closing() && inbox.is_empty() {
            return;
        }
        // The time of a command begins with its first byte, however many reads it takes.
        anew = taken > 0 || anew && inbox.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    use tidegate::MemoryStore;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
    use tokio::sync::watch;

    use super::*;
    use crate::{App, Config};

    /// A stream that counts how often it is written to.
    struct Counted(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.0).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<std::io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    /// What is answered to `input`, sent at once, and in how many writes.
    async fn writes(input: &[u8]) -> (Vec<u8>, usize) {
        let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
        let door = Arc::new(Door::new(app, Config::default()));
        let (mut client, server) = duplex(1 << 20);
        let (_open, closing) = watch::channel(false);
        let count = Arc::new(AtomicUsize::new(0));
        client.write_all(input).await.unwrap();
        client.shutdown().await.unwrap();
        serve(Counted(server, Arc::clone(&count)), door, closing).await;
        let mut output = Vec::new();
        client.read_to_end(&mut output).await.unwrap();
        (output, count.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn a_pipeline_is_answered_in_one_write() {
        let command = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$2\r\n99\r\n$1\r\n1\r\n$2\r\n60\r\n";
        let (output, count) = writes(&command.repeat(64)).await;
        assert_eq!(output.windows(4).filter(|reply| reply == b"*5\r\n").count(), 64);
        assert_eq!(count, 1);
    }

    #[tokio::test]
    async fn answers_that_grow_large_are_written_on_the_way() {
        let info = b"COMMAND\r\n".repeat(400);
        let (output, count) = writes(&info).await;
        assert!(output.len() > 400_000, "{}", output.len());
        // None of them is much larger than what may wait.
        assert!(count >= output.len() / (80 << 10), "{count}");
    }
}
