//! Clients that each keep so many commands on their way, and wait for all answers before the next.

use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::server::{Running, pin_to};
use crate::stopwatch::Stopwatch;

const CLIENTS: u32 = 50;

/// What is asked.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) command: &'static str,
    pub(super) keys: u32,
    pub(super) depth: usize,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) a_second: f64,
    /// Microseconds of the server's processor for each command.
    pub(super) cpu: f64,
    /// Of a whole pipeline, in microseconds: the middle, 99 % and 99.9 %.
    pub(super) latencies: [f64; 3],
    /// The share of those that were told so.
    pub(super) denied: f64,
}

impl Measured {
    /// Each figure's own median.
    pub(super) fn median(rounds: Vec<Self>) -> Option<Self> {
        let middle = |of: &dyn Fn(&Self) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        Some(Self {
            a_second: middle(&|it| it.a_second)?,
            cpu: middle(&|it| it.cpu)?,
            latencies: [
                middle(&|it| it.latencies[0])?,
                middle(&|it| it.latencies[1])?,
                middle(&|it| it.latencies[2])?,
            ],
            denied: middle(&|it| it.denied)?,
        })
    }
}

/// The load has a core to itself.
pub(super) fn pin() -> anyhow::Result<()> {
    pin_to(1)
}

/// Asks once for every key, so that all are known when it counts.
pub(super) fn meet_all_keys(server: &Running, load: &Load, keys: u32) -> anyhow::Result<()> {
    block_on(async {
        let mut client = Client::connect(server, load, 0).await?;
        for first in (0..keys).step_by(load.depth) {
            client.pipeline.aim(|place| (first + place).min(keys - 1));
            client.round_trip().await?;
        }
        Ok(())
    })
}

/// Asks for some time.
pub(super) fn run(server: &Running, load: &Load, time: Duration) -> anyhow::Result<Measured> {
    block_on(async {
        drive(server, load, time / 4).await?;
        let (before, watch) = (server.cpu_micros()?, Stopwatch::start());
        let totals = drive(server, load, time).await?;
        let seconds = watch.nanos() / 1e9;
        let cpu = server.cpu_micros()? - before;
        let commands = (totals.latencies.len() * load.depth) as f64;
        let mut sorted = totals.latencies;
        sorted.sort_unstable();
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share) as usize;
            sorted.get(place).map_or(0.0, |nanos| f64::from(*nanos) / 1e3)
        };
        Ok(Measured {
            a_second: commands / seconds,
            cpu: cpu as f64 / commands,
            latencies: [at(0.5), at(0.99), at(0.999)],
            denied: totals.denied as f64 / sorted.len() as f64,
        })
    })
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(LocalSet::new().run_until(work))
}

/// What the clients saw.
#[derive(Default)]
struct Totals {
    /// Nanoseconds of each pipeline.
    latencies: Vec<u32>,
    /// Pipelines whose first answer was a denial.
    denied: u64,
}

async fn drive(server: &Running, load: &Load, time: Duration) -> anyhow::Result<Totals> {
    let watch = Rc::new(Stopwatch::start());
    let mut clients = Vec::new();
    for seed in 0..CLIENTS {
        let mut client = Client::connect(server, load, seed).await?;
        let (watch, keys) = (watch.clone(), load.keys);
        clients.push(tokio::task::spawn_local(async move {
            let mut totals = Totals::default();
            while watch.nanos() < time.as_nanos() as f64 {
                let random = &mut client.random;
                client.pipeline.aim(|_| next(random) % keys);
                let sent = Stopwatch::start();
                totals.denied += u64::from(client.round_trip().await?);
                totals.latencies.push(sent.nanos() as u32);
            }
            anyhow::Ok(totals)
        }));
    }
    let mut sum = Totals::default();
    for client in clients {
        let totals = client.await??;
        sum.latencies.extend(totals.latencies);
        sum.denied += totals.denied;
    }
    Ok(sum)
}

fn next(random: &mut u32) -> u32 {
    *random ^= *random << 13;
    *random ^= *random >> 17;
    *random ^= *random << 5;
    *random
}

struct Client {
    stream: TcpStream,
    pipeline: Pipeline,
    input: Vec<u8>,
    /// Lines of a reply.
    lines: usize,
    depth: usize,
    random: u32,
    says_denied: &'static [u8],
}

impl Client {
    async fn connect(server: &Running, load: &Load, seed: u32) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server.address).await?;
        stream.set_nodelay(true)?;
        let (lines, says_denied): (_, &[u8]) = match load.command {
            "PING" => (1, b"-"),
            command if command.starts_with("RL.") => (8, b"*6\r\n:0"),
            // redis-cell says whether it limits, throttlecrab whether it allows.
            command if command.starts_with("CL.") => (6, b"*5\r\n:1"),
            _ => (6, b"*5\r\n:0"),
        };
        Ok(Self {
            stream,
            pipeline: Pipeline::new(load),
            input: vec![0; 64 << 10],
            lines,
            depth: load.depth,
            random: (seed + 1).wrapping_mul(0x9e37_79b9),
            says_denied,
        })
    }

    /// Sends the pipeline and waits for all of its answers. Says whether the first one was a denial.
    async fn round_trip(&mut self) -> anyhow::Result<bool> {
        self.stream.write_all(&self.pipeline.bytes).await?;
        let (mut left, mut denied) = (self.lines * self.depth, None);
        while left > 0 {
            let read = self.stream.read(&mut self.input).await?;
            let input = self.input.get(..read).context("what was read")?;
            if read == 0 || input.first() == Some(&b'-') {
                bail!("{}", String::from_utf8_lossy(input));
            }
            denied.get_or_insert(input.starts_with(self.says_denied));
            let lines = input.iter().filter(|byte| **byte == b'\n').count();
            left = left.checked_sub(lines).context("more answers than questions")?;
        }
        Ok(denied == Some(true))
    }
}

/// Commands as bytes, with the places of their keys.
struct Pipeline {
    bytes: Vec<u8>,
    /// Where the digits of each key begin.
    keys: Vec<usize>,
}

const DIGITS: usize = 8;

impl Pipeline {
    fn new(load: &Load) -> Self {
        let (mut bytes, mut keys) = (Vec::new(), Vec::new());
        let words: Vec<&str> = load.command.split(' ').collect();
        for _ in 0..load.depth {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in &words {
                let word = if *word == "KEY" { "user:00000000" } else { word };
                bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
                if word.starts_with("user:") {
                    keys.push(bytes.len() - DIGITS - 2);
                }
            }
        }
        Self { bytes, keys }
    }

    /// Puts in the number of each key.
    fn aim(&mut self, mut key: impl FnMut(u32) -> u32) {
        for (place, start) in (0..).zip(&self.keys) {
            let mut number = key(place);
            for digit in self.bytes[*start..start + DIGITS].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
    }
}
