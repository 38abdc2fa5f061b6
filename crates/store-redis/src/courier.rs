//! Carries batches to Redis, and stops when Redis does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_store::{Clock, StoreError, StoreErrorKind, SystemClock};
use tokio::time::{sleep, timeout};

use crate::batch::{Answer, Batch};
use crate::breaker::Breaker;
use crate::link::{Call, Failure, Link};
use crate::naming::Naming;
use crate::parcel::Parcel;
use crate::queue::Carrier;
use crate::script::{PLAIN, PLAIN_AT, SETTLE, SETTLE_AT};
use crate::{RedisStoreBuilder, plain};

/// Between batches and the link: the script, the breaker and its probe.
#[derive(Debug)]
pub(crate) struct Courier {
    link: Link,
    breaker: Breaker,
    naming: Arc<Naming>,
    /// Tells which month it is, roughly.
    wall: SystemClock,
    /// The time to decide by, in microseconds, where it is not Redis's.
    clock_in_hand: Option<AtomicU64>,
}

/// How often a probe looks whether Redis is back: at first, and at most.
const FIRST_PROBE: Duration = Duration::from_millis(50);
const LAST_PROBE: Duration = Duration::from_millis(500);
/// How long it waits for the answer.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);

impl Courier {
    pub(crate) fn new(builder: &RedisStoreBuilder, naming: Arc<Naming>) -> Arc<Self> {
        Arc::new(Self {
            link: Link::new(builder.config.clone()),
            breaker: Breaker::new(),
            naming,
            wall: SystemClock::new(),
            clock_in_hand: builder.clock_in_hand.then(AtomicU64::default),
        })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.link.is_cluster()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.breaker.is_open()
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        if let Some(clock) = &self.clock_in_hand {
            clock.store(now.as_micros(), Ordering::SeqCst);
        }
    }

    /// What an operator should know about how Redis is set up. Nothing, where it may not be asked.
    pub(crate) async fn doubts(&self) -> Vec<String> {
        let memory = timeout(PROBE_TIMEOUT, self.link.memory(0)).await;
        match memory {
            Ok(Ok(memory)) if memory.may_evict() => vec![format!(
                "maxmemory-policy is {:?}: Redis may drop counters when its memory is full, and \
                 whose counter is dropped has a fresh quota; set it to noeviction",
                memory.policy
            )],
            _ => Vec::new(),
        }
    }

    /// A caller stopped waiting.
    pub(crate) fn timed_out(self: &Arc<Self>, slot: u16, lane: usize) {
        self.link.timed_out(slot, lane);
        self.failed(slot);
    }

    fn failed(self: &Arc<Self>, slot: u16) {
        if self.breaker.failed() {
            let (courier, first) = (Arc::downgrade(self), FIRST_PROBE);
            tokio::spawn(async move {
                let mut pause = first;
                loop {
                    sleep(pause).await;
                    pause = (pause * 2).min(LAST_PROBE);
                    let Some(courier) = courier.upgrade() else { return };
                    if courier.probe(slot).await {
                        courier.breaker.close();
                        return;
                    }
                }
            });
        }
    }

    /// Whether Redis decides again: a decision about nobody.
    async fn probe(&self, slot: u16) -> bool {
        let mut batch = Batch::default();
        self.naming.probe().into_iter().for_each(|ask| batch.add(ask));
        let call = self.call(&batch.seal());
        matches!(timeout(PROBE_TIMEOUT, self.link.run(slot, 0, &call)).await, Ok(Ok(_)))
    }

    fn call(&self, parcel: &Parcel) -> Call {
        let now = self.clock_in_hand.as_ref().map(|clock| clock.load(Ordering::SeqCst));
        let mut call = match parcel.plain() {
            Some(ask) => plain::call(ask, if now.is_some() { &PLAIN_AT } else { &PLAIN }),
            None => {
                let script = if now.is_some() { &SETTLE_AT } else { &SETTLE };
                let mut call = Call::new(script, &parcel.names());
                call.arg(
                    parcel.argument(now.map_or_else(|| self.wall.now(), Timestamp::from_micros)),
                );
                call
            }
        };
        if let Some(now) = now {
            call.number(now as i64);
        }
        call
    }
}

impl Carrier for Arc<Courier> {
    fn keeps_slots_apart(&self) -> bool {
        self.link.is_cluster()
    }

    async fn carry(&self, lane: usize, parcel: &Parcel) -> Vec<Answer> {
        let call = self.call(parcel);
        match self.link.run(parcel.slot(), lane, &call).await {
            Ok(reply) => {
                self.breaker.succeeded();
                parcel.answers(&reply)
            }
            Err(failure) => {
                if is_of_the_server(&failure) {
                    self.failed(parcel.slot());
                }
                let error = StoreError::from(failure);
                parcel.asks().iter().map(|_| Err(error.clone())).collect()
            }
        }
    }
}

/// Whether a failure says something about Redis, and not about one key.
fn is_of_the_server(failure: &Failure) -> bool {
    failure.kind != StoreErrorKind::WrongType
}
