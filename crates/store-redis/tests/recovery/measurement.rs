//! One cell of the table: stores, callers, and how long recovery takes.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store_redis::{RedisConfig, RedisStore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::support::Counter;
use crate::support::load::Load;

/// Two stores of one builder, as workers have them, with callers that never pause for long.
pub(crate) struct Cell {
    name: String,
    stores: Vec<Arc<RedisStore>>,
    load: Vec<Load>,
}

/// Longer than a busy machine keeps a healthy Redis from answering, most of the time.
const DEADLINE: Duration = Duration::from_millis(100);
/// Two seconds are promised. A machine that runs many servers gets more.
const BOUND: Duration = Duration::from_secs(5);
const COUNTERS: u64 = 16;

impl Cell {
    /// Waits until both stores are answered.
    pub(crate) async fn start(name: String, url: &str) -> Self {
        let config: RedisConfig = url.parse().unwrap_or_else(|error| panic!("{error}"));
        let builder = RedisStore::builder(config).deadline(DEADLINE);
        let stores: Vec<_> = (0..2).map(|_| Arc::new(builder.clone().build())).collect();
        let mut cell = Self { name, stores, load: Vec::new() };
        cell.until_well(Duration::from_secs(20), || true).await;
        let counters: Vec<_> = (0..COUNTERS).map(Counter::ample).collect();
        let rest = Duration::from_millis(20);
        cell.load = cell.stores.iter().map(|it| Load::start(it, &counters, 1, rest)).collect();
        cell
    }

    /// Waits until both breakers are open, and some probes have failed.
    pub(crate) async fn until_given_up(&self) {
        let start = Instant::now();
        while self.stores.iter().any(|store| store.is_available()) {
            assert!(start.elapsed() < 2 * BOUND, "{}: the fault goes unnoticed", self.name);
            sleep(Duration::from_millis(2)).await;
        }
        sleep(Duration::from_millis(600)).await;
    }

    /// Redis has recovered: the stores must recover soon.
    pub(crate) async fn end(self) {
        self.end_with(|| true).await;
    }

    /// The same, and this must be true as well.
    pub(crate) async fn end_with(self, is_right: impl Fn() -> bool) {
        let back = self.until_well(BOUND, is_right).await;
        println!("{}: back in {} ms", self.name, back.as_millis());
        for load in self.load {
            drop(load.end().await);
        }
    }

    /// How long it takes until no caller is turned away any more.
    async fn until_well(&self, bound: Duration, is_right: impl Fn() -> bool) -> Duration {
        let start = Instant::now();
        loop {
            let began = start.elapsed();
            let problem = match self.is_well().await {
                Ok(()) if is_right() => return began,
                Ok(()) => "well, but with the wrong server".to_owned(),
                Err(problem) => problem,
            };
            assert!(began < bound, "{}: after {began:?} still {problem}", self.name);
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Whether callers are answered by every store, on each of its connections.
    async fn is_well(&self) -> Result<(), String> {
        for (number, store) in self.stores.iter().enumerate() {
            for _ in 0..4 {
                let mut callers = JoinSet::new();
                for n in 0..COUNTERS {
                    let store = Arc::clone(store);
                    callers.spawn(async move { Counter::ample(100 + n).ask(&store).await });
                }
                let answers = callers.join_all().await;
                if let Some(error) = answers.into_iter().find_map(Result::err) {
                    return Err(format!("store {number}: {error}"));
                }
            }
            if !store.is_available() {
                return Err(format!("store {number}: the breaker is open"));
            }
        }
        Ok(())
    }
}
