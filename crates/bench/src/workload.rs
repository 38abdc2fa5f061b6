//! Workloads: the keys, their order, and the number of threads.

use std::hint::black_box;
use std::sync::Barrier;

use tidegate::SplitMix;

use crate::contestant::Contestant;
use crate::stopwatch::Stopwatch;

/// Decisions between two clock readings, which then cost half a nanosecond per decision.
const BATCH: usize = 64;

/// How requests spread over keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All keys come equally often.
    Uniform,
    /// The n-th key comes 1/n as often as the first.
    Zipf,
}

/// Keys, and the order in which each thread uses them.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    keys: Vec<String>,
    orders: Vec<Vec<u32>>,
}

impl Workload {
    pub(crate) fn new(
        name: &'static str,
        keys: usize,
        spread: Spread,
        threads: usize,
        decisions: usize,
    ) -> Self {
        let mut random = SplitMix::new(0x5eed);
        let pick = Picker::new(keys, spread);
        let orders = (0..threads)
            .map(|_| (0..decisions).map(|_| pick.pick(&mut random)).collect())
            .collect();
        Self { name, threads, keys: self::keys(keys), orders }
    }

    /// Uses every key once, so that none is new when the measurement starts.
    pub(crate) fn introduce(&self, contestant: &dyn Contestant) {
        for key in &self.keys {
            black_box(contestant.check(key));
        }
    }

    /// Nanoseconds that a decision took each thread, on average.
    pub(crate) fn run(&self, contestant: &dyn Contestant) -> f64 {
        let start = Barrier::new(self.threads);
        let times: Vec<f64> = std::thread::scope(|scope| {
            let runs: Vec<_> = self
                .orders
                .iter()
                .map(|order| scope.spawn(|| self.run_thread(contestant, order, &start)))
                .collect();
            runs.into_iter().filter_map(|run| run.join().ok()).collect()
        });
        times.iter().sum::<f64>() / times.len() as f64
    }

    fn run_thread(&self, contestant: &dyn Contestant, order: &[u32], start: &Barrier) -> f64 {
        start.wait();
        let mut nanos = 0.0;
        for batch in order.chunks(BATCH) {
            // A service has just read the key from a socket: it is in the cache.
            let keys = batch.iter().map(|index| &self.keys[*index as usize]);
            keys.clone().for_each(|key| {
                black_box(key.bytes().fold(0, |all, byte| all ^ byte));
            });
            let stopwatch = Stopwatch::start();
            keys.for_each(|key| {
                black_box(contestant.check(key));
            });
            nanos += stopwatch.nanos();
        }
        nanos / order.len() as f64
    }
}

/// Keys as services have them: a prefix and a number.
pub(crate) fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user:{number:07}")).collect()
}

struct Picker {
    keys: usize,
    /// For zipf: the cumulative weights.
    weights: Vec<f64>,
}

impl Picker {
    fn new(keys: usize, spread: Spread) -> Self {
        let mut sum = 0.0;
        let weights = match spread {
            Spread::Uniform => Vec::new(),
            Spread::Zipf => (1..=keys)
                .map(|rank| {
                    sum += 1.0 / rank as f64;
                    sum
                })
                .collect(),
        };
        Self { keys, weights }
    }

    fn pick(&self, random: &mut SplitMix) -> u32 {
        let number = random.bits();
        let Some(total) = self.weights.last() else {
            return ((u128::from(number) * self.keys as u128) >> 64) as u32;
        };
        let at = number as f64 / u64::MAX as f64 * total;
        let rank = self.weights.partition_point(|weight| *weight < at).min(self.keys - 1);
        // Popular keys are not neighbours in memory: scatter the ranks.
        ((rank * 7_919) % self.keys) as u32
    }
}
