//! Clients that each keep this many requests in flight, and wait for all answers before the next.

use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::median::median;
use crate::running::Running;
use crate::stopwatch::Stopwatch;

/// A load in some protocol.
pub(crate) trait Load {
    type Client: Client + 'static;
    /// The number of clients at a time.
    const CLIENTS: u32;

    fn client(&self, stream: TcpStream) -> Self::Client;
    /// The number of keys.
    fn keys(&self) -> u32;
    /// How many requests a client sends before it reads an answer.
    fn depth(&self) -> usize;
}

/// A client of a load.
pub(crate) trait Client {
    fn requests(&mut self) -> &mut Requests;
    /// Sends all requests and waits for all answers. Returns whether the first one was a denial.
    fn round_trip(&mut self) -> impl Future<Output = anyhow::Result<bool>>;
}

/// The results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) a_second: f64,
    /// Microseconds of the server's processor time per request.
    pub(crate) cpu: f64,
    /// For a whole pipeline, in microseconds: the median, 99 % and 99.9 %.
    pub(crate) latencies: [f64; 3],
    /// The share of requests that were denied.
    pub(crate) denied: f64,
}

impl Measured {
    /// The median of each figure.
    pub(crate) fn median(rounds: &[Self]) -> Option<Self> {
        let middle = |of: &dyn Fn(&Self) -> f64| median(rounds.iter().map(of));
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

/// Sends a request for every key, so that no key is new during the measurement.
pub(crate) fn meet_all_keys(server: &Running, load: &impl Load) -> anyhow::Result<()> {
    block_on(async {
        let mut client = load.client(connect(server).await?);
        let keys = load.keys();
        for first in (0..keys).step_by(load.depth()) {
            client.requests().aim(|place| (first + place).min(keys - 1));
            client.round_trip().await?;
        }
        Ok(())
    })
}

/// Sends requests for a while and measures.
pub(crate) fn run(server: &Running, load: &impl Load, time: Duration) -> anyhow::Result<Measured> {
    block_on(async {
        drive(server, load, time / 4).await?;
        let (before, watch) = (server.cpu_micros()?, Stopwatch::start());
        let totals = drive(server, load, time).await?;
        let seconds = watch.nanos() / 1e9;
        let cpu = server.cpu_micros()? - before;
        let requests = (totals.latencies.len() * load.depth()) as f64;
        let mut sorted = totals.latencies;
        sorted.sort_unstable();
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share) as usize;
            sorted.get(place).map_or(0.0, |nanos| f64::from(*nanos) / 1e3)
        };
        Ok(Measured {
            a_second: requests / seconds,
            cpu: cpu / requests,
            latencies: [at(0.5), at(0.99), at(0.999)],
            denied: totals.denied as f64 / sorted.len() as f64,
        })
    })
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let clients = LocalSet::new();
    clients.spawn_local(stay_awake());
    runtime.block_on(clients.run_until(work))
}

/// Keeps clients awake. Waking a sleeping client would cost the server's core time, most of all for slow
/// servers, while it costs nothing if clients run on another machine.
async fn stay_awake() {
    loop {
        tokio::task::yield_now().await;
    }
}

async fn connect(server: &Running) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(server.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The results of the clients.
#[derive(Default)]
struct Totals {
    /// Nanoseconds of each pipeline.
    latencies: Vec<u32>,
    /// Pipelines whose first answer was a denial.
    denied: u64,
}

async fn drive<L: Load>(server: &Running, load: &L, time: Duration) -> anyhow::Result<Totals> {
    let watch = Rc::new(Stopwatch::start());
    let mut clients = Vec::new();
    for seed in 0..L::CLIENTS {
        let mut client = load.client(connect(server).await?);
        let (watch, keys) = (watch.clone(), load.keys());
        let mut random = (seed + 1).wrapping_mul(0x9e37_79b9);
        clients.push(tokio::task::spawn_local(async move {
            let mut totals = Totals::default();
            while watch.nanos() < time.as_nanos() as f64 {
                client.requests().aim(|_| next(&mut random) % keys);
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

/// Requests as bytes, with the positions of their keys.
pub(crate) struct Requests {
    pub(crate) bytes: Vec<u8>,
    /// Where the digits of each key begin.
    keys: Vec<usize>,
}

/// The placeholder for the number of a key.
pub(crate) const KEY: &str = "user:00000000";
const DIGITS: usize = 8;

impl Requests {
    /// This many copies of the same request, in which [`KEY`] is filled in.
    pub(crate) fn new(request: &[u8], depth: usize) -> Self {
        let bytes = request.repeat(depth);
        let is_key = |at: &usize| bytes[*at..].starts_with(KEY.as_bytes());
        let keys = (0..bytes.len()).filter(is_key).map(|at| at + KEY.len() - DIGITS).collect();
        Self { bytes, keys }
    }

    /// Fills in the number of each key.
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
