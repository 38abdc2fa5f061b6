//! Tests of a RESP connection: timeouts, shutdown and batched writes.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate::{
    Charge, LocalStore, MemoryStore, Promise, SettleResult, Span, StoreError, StoreProfile,
    Verdicts,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, ReadBuf, duplex};
use tokio::sync::watch;
use tokio::task::coop::poll_proceed;
use tokio::time::{Instant, sleep, timeout};

use super::super::RespOptions;
use super::*;
use crate::{App, ListenerConfig};

/// A stream that counts how often it is written to.
struct CountingStream(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for CountingStream {
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

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn context<S: Store>(app: Arc<App<S>>) -> RespListenerContext<S> {
    RespListenerContext::new(app, ListenerConfig::default(), RespOptions::default())
}

/// A connection with the bounds of the default configuration.
fn connect() -> (DuplexStream, watch::Sender<bool>) {
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    let context = Arc::new(context(app));
    let ((client, server), (open, closing)) = (duplex(1 << 20), watch::channel(false));
    tokio::spawn(serve(server, None, context, Seat::alone(closing)));
    (client, open)
}

#[tokio::test]
async fn a_transaction_is_refused_and_nothing_in_it_is_charged() {
    let (mut client, _open) = connect();
    let commands: &[u8] = b"RL.CHECK demo a\r\nMULTI\r\nRL.CHECK demo a\r\nCL.THROTTLE a 1 1 1\r\n\
        PING\r\nEXEC\r\nRL.PEEK demo a\r\nEXEC\r\nMULTI\r\nRL.CHECK demo a\r\nRESET\r\nRL.PEEK demo a\r\n\
        MULTI\r\nDISCARD\r\nDISCARD\r\nQUIT\r\n";
    client.write_all(commands).await.unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).await.unwrap();
    let allowed = said.matches(":10\r\n:9\r\n").count();
    assert_eq!(allowed, 3, "only the first check took a unit: {said}");
    assert_eq!(said.matches("-ERR transactions are not supported: expected").count(), 3, "{said}");
    assert_eq!(said.matches("-ERR not executed, because MULTI was refused").count(), 4, "{said}");
    assert_eq!(said.matches("-EXECABORT ").count(), 2, "{said}");
    assert_eq!(said.matches("-ERR EXEC without MULTI").count(), 1, "{said}");
    assert_eq!(said.matches("-ERR DISCARD without MULTI").count(), 1, "{said}");
}

const PONG: &[u8; 7] = b"+PONG\r\n";

#[tokio::test(start_paused = true)]
async fn the_time_of_a_command_begins_with_its_first_byte() {
    let (mut client, _open) = connect();
    for _ in 0..3 {
        sleep(Duration::from_secs(59)).await;
        client.write_all(b"*1\r\n$4").await.unwrap();
        sleep(Duration::from_secs(2)).await;
        client.write_all(b"\r\nPI").await.unwrap();
        sleep(Duration::from_secs(2)).await;
        client.write_all(b"NG\r\n").await.unwrap();
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, PONG);
    }
}

#[tokio::test(start_paused = true)]
async fn neither_silence_nor_drops_keep_a_connection_open() {
    // What is sent each second, how many times, and after how many seconds the connection ends.
    for (bytes, times, seconds) in [("", 0, 60), ("x", 1, 5), ("x", 100, 5), ("PING\r\nx", 1, 5)] {
        let (mut client, _open) = connect();
        let started = Instant::now();
        let (mut reader, mut writer) = tokio::io::split(&mut client);
        let drip = async {
            for _ in 0..times {
                if writer.write_all(bytes.as_bytes()).await.is_err() {
                    break;
                }
                sleep(Duration::from_secs(1)).await;
            }
        };
        let ended = async {
            while let Ok(1..) = reader.read(&mut [0; 64]).await {}
            started.elapsed().as_secs()
        };
        let (ended, ()) = tokio::join!(ended, drip);
        assert_eq!(ended, seconds, "{bytes:?} {times}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_closing_server_hangs_up_on_the_idle_and_waits_for_half_a_command() {
    let (mut idle, open) = connect();
    open.send_replace(true);
    assert_eq!(idle.read(&mut [0; 64]).await.unwrap(), 0);

    let (mut busy, open) = connect();
    busy.write_all(b"PI").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    open.send_replace(true);
    sleep(Duration::from_secs(1)).await;
    busy.write_all(b"NG\r\n").await.unwrap();
    let mut answer = Vec::new();
    busy.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, PONG);
}

/// A client whose input is ready immediately this many times, and that is then silent.
struct EagerClient(usize);

impl AsyncRead for EagerClient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.0 == 0 {
            return Poll::Pending;
        }
        let turn = std::task::ready!(poll_proceed(cx));
        turn.made_progress();
        self.0 -= 1;
        buf.put_slice(b"PING\r\n");
        Poll::Ready(Ok(()))
    }
}

/// Without `unconstrained`, a task that has used up its budget would miss the wake-up.
#[tokio::test(start_paused = true)]
async fn a_closing_server_hangs_up_on_who_was_never_waited_for() {
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    let context = Arc::new(context(app));
    let ((mut answers, output), (open, closing)) = (duplex(1 << 20), watch::channel(false));
    tokio::spawn(serve(
        tokio::io::join(EagerClient(1_000), output),
        None,
        context,
        Seat::alone(closing),
    ));
    sleep(Duration::from_secs(1)).await;
    let closed_at = Instant::now();
    open.send_replace(true);
    let mut received = Vec::new();
    answers.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, PONG.repeat(1_000));
    assert!(closed_at.elapsed() < Duration::from_secs(1), "{:?}", closed_at.elapsed());
}

/// Such as a client whose handshake took until then.
#[tokio::test(start_paused = true)]
async fn who_comes_when_the_server_closes_is_answered_once() {
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    let context = Arc::new(context(app));
    let ((mut answers, output), open) = (duplex(1 << 20), watch::Sender::new(true));
    tokio::spawn(serve(
        tokio::io::join(EagerClient(1_000), output),
        None,
        context,
        Seat::alone(open.subscribe()),
    ));
    let mut received = Vec::new();
    answers.read_to_end(&mut received).await.unwrap();
    assert_eq!(received, PONG);
}

/// The replies to `input`, which is sent in one piece, and the number of writes.
async fn writes(input: &[u8]) -> (Vec<u8>, usize) {
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    let context = Arc::new(context(app));
    let (mut client, server) = duplex(1 << 20);
    let (_open, closing) = watch::channel(false);
    let count = Arc::new(AtomicUsize::new(0));
    client.write_all(input).await.unwrap();
    client.shutdown().await.unwrap();
    serve(CountingStream(server, Arc::clone(&count)), None, context, Seat::alone(closing)).await;
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
    // No write is much larger than the bound on pending replies.
    assert!(count >= output.len() / (80 << 10), "{count}");
}

#[tokio::test(start_paused = true)]
async fn what_a_stream_holds_back_is_sent() {
    let app = Arc::new(App::demo(MemoryStore::new()).unwrap());
    let context = Arc::new(context(app));
    let ((mut client, server), (_open, closing)) = (duplex(1 << 20), watch::channel(false));
    tokio::spawn(serve(
        BufWriter::with_capacity(1 << 20, server),
        None,
        context,
        Seat::alone(closing),
    ));
    client.write_all(b"PING\r\n").await.unwrap();
    let mut answer = [0; 7];
    timeout(Duration::from_secs(1), client.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, PONG);
}

/// A store that counts as remote, so that its decisions are in flight together.
struct RemoteStore(MemoryStore);

impl Store for RemoteStore {
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        _: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::Later(async move { Ok(self.0.settle_now(charges, out)) })
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.refund(charge).await
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.0.reset(charge).await
    }

    fn profile(&self) -> StoreProfile {
        StoreProfile::remote([7; 16])
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_an_answer_that_was_cut() {
    const ROOM: usize = 1_000;
    let app = Arc::new(App::demo(RemoteStore(MemoryStore::new())).unwrap());
    let context = Arc::new(context(app));
    let ((mut client, input), (output, mut answers)) = (duplex(1 << 20), duplex(ROOM));
    let (_open, closing) = watch::channel(false);
    tokio::spawn(serve(tokio::io::join(input, output), None, context, Seat::alone(closing)));
    // Empty lines are not answered, but make the server read larger pieces.
    client.write_all(&[b'\n'; 1 << 19]).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    // More replies than are held for a client, with decisions in flight behind them.
    client.write_all(&b"RL.PEEK demo alice\n".repeat(20_000)).await.unwrap();
    // The client reads after the write of the first replies has timed out, but before later ones could:
    // it gets what was sent by then, and the end of the stream.
    sleep(ListenerConfig::default().body_timeout + Duration::from_secs(1)).await;
    let mut taken = Vec::new();
    answers.read_to_end(&mut taken).await.unwrap();
    let answer = "*6\r\n:1\r\n:10\r\n:10\r\n:-1\r\n:0\r\n$12\r\nwithin_limit\r\n";
    assert_eq!(String::from_utf8(taken).unwrap(), answer.repeat(ROOM)[..ROOM]);
}
