//! Generates load over gRPC: connections that each keep several calls in flight.

use std::collections::HashMap;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::frames::{self, Frame, Writer};
use crate::stopwatch::Stopwatch;

const CONNECTIONS: u32 = 8;
const STREAMS: u32 = 8;

/// The load on a server.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) port: u16,
    /// The number of keys, which take turns.
    pub(super) keys: u32,
    pub(super) calls: u64,
}

/// The results. Latencies are in microseconds; the CPU time is the server's, per call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) calls: u64,
    pub(super) a_second: f64,
    /// The share of calls that were denied.
    pub(super) denied: f64,
    pub(super) cpu: f64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
}

impl Load {
    pub(super) fn run(self) -> anyhow::Result<Measured> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let watch = Stopwatch::start();
            let mut connections = JoinSet::new();
            for number in 0..CONNECTIONS {
                connections.spawn(Connection::run(self, number));
            }
            let (mut nanos, mut denied) = (Vec::new(), 0);
            while let Some(done) = connections.join_next().await {
                let done = done??;
                nanos.extend(done.nanos);
                denied += done.denied;
            }
            let seconds = watch.nanos() / 1e9;
            nanos.sort_unstable();
            let at = |share: f64| {
                let index = (nanos.len() as f64 * share) as usize;
                nanos.get(index).map_or(f64::NAN, |nanos| f64::from(*nanos) / 1e3)
            };
            let calls = nanos.len() as u64;
            Ok(Measured {
                calls,
                a_second: calls as f64 / seconds,
                denied: denied as f64 / calls as f64,
                cpu: f64::NAN,
                p50: at(0.5),
                p99: at(0.99),
                p999: at(0.999),
            })
        })
    }
}

/// One connection.
struct Connection {
    writer: Writer,
    watch: Stopwatch,
    /// When each call in flight was sent.
    sent: HashMap<u32, f64>,
    nanos: Vec<u32>,
    denied: u64,
    received: usize,
    out: Vec<u8>,
    next_key: u32,
    keys: u32,
    /// Calls that are still to be sent.
    left: u64,
}

impl Connection {
    async fn run(load: Load, number: u32) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", load.port)).await?;
        stream.set_nodelay(true)?;
        let share = load.calls / u64::from(CONNECTIONS);
        let mut this = Self {
            writer: Writer::new(),
            watch: Stopwatch::start(),
            sent: HashMap::new(),
            nanos: Vec::with_capacity(share as usize),
            denied: 0,
            received: 0,
            out: frames::HELLO.to_vec(),
            next_key: number,
            keys: load.keys,
            left: share,
        };
        (0..STREAMS).for_each(|_| this.call());
        let mut bytes = Vec::with_capacity(64 << 10);
        while !this.sent.is_empty() {
            stream.write_all(&this.out).await?;
            this.out.clear();
            if stream.read_buf(&mut bytes).await? == 0 {
                bail!("the server closed the connection");
            }
            let mut rest = &bytes[..];
            while let Some((frame, after)) = Frame::read(rest) {
                this.handle(&frame)?;
                rest = after;
            }
            let read = bytes.len() - rest.len();
            bytes.drain(..read);
        }
        Ok(this)
    }

    fn call(&mut self) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let stream = self.writer.call(self.next_key % self.keys, &mut self.out);
        self.next_key = self.next_key.wrapping_add(CONNECTIONS);
        self.sent.insert(stream, self.watch.nanos());
    }

    fn handle(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        match frame.kind {
            frames::DATA => {
                // After the message prefix, the first field is the decision.
                self.denied += u64::from(frame.payload.get(5..7) == Some(&[0x08, 2]));
                self.received += frame.payload.len();
                if self.received > frames::ROOM {
                    self.received = 0;
                    self.out.extend(frames::MORE_ROOM);
                }
            }
            frames::SETTINGS if frame.flags & frames::ACK == 0 => {
                self.out.extend(frames::SETTINGS_ACK);
            }
            frames::PING if frame.flags & frames::ACK == 0 => {
                self.out.extend([0, 0, 8, frames::PING, frames::ACK, 0, 0, 0, 0]);
                self.out.extend(frame.payload);
            }
            frames::RESET | frames::GOAWAY => bail!("the server refused: {:?}", frame.payload),
            _ => {}
        }
        if frame.stream != 0 && frame.flags & frames::END_STREAM != 0 && frame.kind <= 1 {
            let sent = self.sent.remove(&frame.stream).context("an answer to no call")?;
            self.nanos.push((self.watch.nanos() - sent) as u32);
            self.call();
        }
        Ok(())
    }
}
