//! Callers that send requests concurrently until they are stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate_store::{StoreError, StoreErrorKind};
use tidegate_store_redis::RedisStore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{Counter, PATIENT};

/// The answers that callers got.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) admitted: u64,
    pub(crate) denied: u64,
    /// By the name of their kind, with one of them as an example.
    pub(crate) errors: BTreeMap<&'static str, (u64, String)>,
    /// Errors that leave open whether the request was counted.
    pub(crate) unknown: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, answer: Result<bool, StoreError>) {
        match answer {
            Ok(true) => self.admitted += 1,
            Ok(false) => self.denied += 1,
            Err(error) => {
                self.unknown += u64::from(error.may_have_settled());
                self.errors.entry(error.kind().name()).or_insert((0, error.to_string())).0 += 1;
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.admitted += other.admitted;
        self.denied += other.denied;
        self.unknown += other.unknown;
        for (name, (count, example)) in other.errors {
            self.errors.entry(name).or_insert((0, example)).0 += count;
        }
    }

    #[track_caller]
    pub(crate) fn assert_errors_are(&self, kinds: &[StoreErrorKind]) {
        let other =
            self.errors.iter().find(|(name, _)| kinds.iter().all(|kind| kind.name() != **name));
        assert!(other.is_none(), "unexpected {other:?} in {self:?}");
    }
}

/// Running callers.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    callers: Vec<JoinHandle<(usize, Tally)>>,
    counters: usize,
}

impl Load {
    /// This many callers on each counter, each of which rests between requests.
    pub(crate) fn start(
        store: &Arc<RedisStore>,
        counters: &[Counter],
        callers: usize,
        rest: Duration,
    ) -> Self {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let call = |which: usize| {
            let (store, counter) = (Arc::clone(store), counters[which]);
            let (stop, answers) = (Arc::clone(&stop), Arc::clone(&answers));
            tokio::spawn(async move {
                let mut tally = Tally::default();
                while !stop.load(Ordering::Relaxed) {
                    let answer = counter.ask(&store).await;
                    answers.fetch_add(u64::from(answer.is_ok()), Ordering::Relaxed);
                    tally.add(answer);
                    sleep(rest).await;
                }
                (which, tally)
            })
        };
        let callers = (0..counters.len() * callers).map(|n| call(n % counters.len())).collect();
        Self { stop, answers, callers, counters: counters.len() }
    }

    /// How many answers were not errors, so far.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Waits until this many more answers have come.
    pub(crate) async fn go_on_for(&self, answers: u64) {
        let (start, enough) = (Instant::now(), self.answers() + answers);
        while self.answers() < enough {
            assert!(start.elapsed() < 2 * PATIENT, "no answers any more");
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Each counter's tally. Panics if a caller panicked.
    pub(crate) async fn end(self) -> Vec<Tally> {
        self.stop.store(true, Ordering::Relaxed);
        let mut tallies: Vec<_> = (0..self.counters).map(|_| Tally::default()).collect();
        for caller in self.callers {
            let (which, tally) = caller.await.expect("no caller panics");
            tallies[which].merge(tally);
        }
        tallies
    }

    /// The tally of the only counter.
    pub(crate) async fn end_one(self) -> Tally {
        self.end().await.pop().expect("a counter")
    }
}
