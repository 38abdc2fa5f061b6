//! Carries batches to Redis, and stops when Redis does not answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Fingerprint, Timestamp};
use tidegate_store::{Clock, StoreError, StoreErrorKind, SystemClock, Usage};
use tokio::time::{Instant, sleep, timeout};

use crate::batch::{Answer, Ask, Batch, Crowd};
use crate::breaker::Breaker;
use crate::deadline::Deadline;
use crate::link::{Call, Failure, Link, Reply};
use crate::naming::Naming;
use crate::parcel::Parcel;
use crate::queue::Carrier;
use crate::script::{PLAIN, PLAIN_AT, SETTLE, SETTLE_AT};
use crate::{RedisStoreBuilder, plain};

/// Sits between the batches and the link: the script, the breaker and its probe.
#[derive(Debug)]
pub(crate) struct Courier {
    link: Link,
    /// One breaker, or on a Cluster one for each of this many ranges of slots: a node that is down
    /// affects nobody whose counters are elsewhere.
    breakers: Box<[Breaker]>,
    naming: Arc<Naming>,
    deadline: Arc<Deadline>,
    /// Tells roughly which month it is.
    wall: SystemClock,
    /// The time to decide by, in microseconds, if it is not Redis's.
    clock_in_hand: Option<Arc<AtomicU64>>,
}

/// How often a probe checks whether Redis is back: at first, and at most.
const FIRST_PROBE: Duration = Duration::from_millis(50);
const LAST_PROBE: Duration = Duration::from_millis(500);
/// How long it waits for the answer.
const PROBE_TIMEOUT: Duration = Duration::from_millis(250);

impl Courier {
    pub(crate) fn new(
        builder: &RedisStoreBuilder,
        naming: Arc<Naming>,
        deadline: Arc<Deadline>,
    ) -> Arc<Self> {
        let link = Link::new(builder.config.clone());
        let breakers = if link.is_cluster() { BREAKERS_ON_A_CLUSTER } else { 1 };
        Arc::new(Self {
            link,
            breakers: (0..breakers).map(|_| Breaker::new()).collect(),
            naming,
            deadline,
            wall: SystemClock::new(),
            clock_in_hand: builder.clock_in_hand.clone(),
        })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.link.is_cluster()
    }

    /// Where a request is decided. Only a Cluster has slots, and computing one takes a while.
    pub(crate) fn place(&self, ask: &Ask) -> Place {
        let slot = if self.is_cluster() { ask.slot() } else { 0 };
        Place { slot, subject: ask.subject() }
    }

    /// Whether requests for this slot are currently being turned away.
    pub(crate) fn is_open(&self, slot: u16) -> bool {
        self.breaker(slot).is_open()
    }

    pub(crate) fn is_any_open(&self) -> bool {
        self.breakers.iter().any(Breaker::is_open)
    }

    fn breaker(&self, slot: u16) -> &Breaker {
        let range = usize::from(slot) * self.breakers.len() / usize::from(crate::slot::COUNT);
        &self.breakers[range.min(self.breakers.len() - 1)]
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        if let Some(clock) = &self.clock_in_hand {
            clock.store(now.as_micros(), Ordering::SeqCst);
        }
    }

    /// What an operator should know about how Redis is set up, or why that is unknown.
    pub(crate) async fn doubts(&self) -> Vec<String> {
        let memory = timeout(PROBE_TIMEOUT, self.link.memory(0)).await;
        match memory {
            Ok(Ok(memory)) if memory.may_evict() => vec![format!(
                "maxmemory-policy is {:?}: Redis may drop counters when its memory is full, and \
                 whose counter is dropped has a fresh quota; set it to noeviction",
                memory.policy
            )],
            Ok(Ok(_)) => Vec::new(),
            Ok(Err(failure)) => vec![format!("could not see how Redis is set up: {failure}")],
            Err(_) => vec![format!("no answer from Redis within {PROBE_TIMEOUT:?}")],
        }
    }

    /// What Redis holds. For a Cluster the total is unknown, and a user without permission to ask
    /// learns nothing.
    pub(crate) async fn usage(&self) -> Result<Usage, StoreError> {
        if self.link.is_cluster() {
            return Ok(Usage::default());
        }
        match timeout(PROBE_TIMEOUT, self.link.memory(0)).await {
            Ok(Ok(memory)) => Ok(Usage {
                bytes: memory.used,
                max_bytes: Some(memory.limit).filter(|limit| *limit > 0),
                keys: memory.keys,
                ..Usage::default()
            }),
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(StoreError::new(
                StoreErrorKind::Timeout,
                format!("no answer within {PROBE_TIMEOUT:?}"),
            )),
        }
    }

    pub(crate) const fn link(&self) -> &Link {
        &self.link
    }

    /// A caller stopped waiting while calls on these connections were late.
    pub(crate) fn timed_out(self: &Arc<Self>, place: Place, late: &[usize]) {
        late.iter().for_each(|lane| self.link.timed_out(place.slot, *lane));
        self.failed(place);
    }

    fn failed(self: &Arc<Self>, place: Place) {
        if self.breaker(place.slot).failed() {
            let probing = Probing { courier: Arc::downgrade(self), place };
            tokio::spawn(probing.run());
        }
    }

    /// Whether Redis decides again, and in time: makes a decision about nobody, at the place that
    /// failed. An answer that comes late does not count, or callers would find out by waiting.
    async fn probe(&self, place: Place) -> bool {
        let mut batch = Batch::default();
        self.naming.probe(place.subject).into_iter().for_each(|ask| batch.add(Crowd::of_one(ask)));
        let call = self.call(&batch.seal());
        let began = Instant::now();
        let answer = timeout(PROBE_TIMEOUT, self.link.run(place.slot, 0, &call)).await;
        matches!(answer, Ok(Ok(_))) && began.elapsed() <= self.deadline.get()
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
        call.marked()
    }
}

impl Carrier for Arc<Courier> {
    fn keeps_slots_apart(&self) -> bool {
        self.link.is_cluster()
    }

    async fn carry(&self, lane: usize, parcel: &Parcel) -> Vec<Answer> {
        match self.run(lane, parcel).await {
            Err(failure) if failure.keys_apart && parcel.crowds().len() > 1 => {
                self.carry_apart(lane, parcel).await
            }
            outcome => self.answers(parcel, outcome),
        }
    }
}

impl Courier {
    async fn run(&self, lane: usize, parcel: &Parcel) -> Result<Reply, Failure> {
        self.link.run(self.slot(parcel), lane, &self.call(parcel)).await
    }

    fn slot(&self, parcel: &Parcel) -> u16 {
        parcel.first().map_or(0, |ask| self.place(ask).slot)
    }

    fn answers(self: &Arc<Self>, parcel: &Parcel, outcome: Result<Reply, Failure>) -> Vec<Answer> {
        match outcome {
            Ok(reply) => {
                self.breaker(self.slot(parcel)).succeeded();
                parcel.answers(&reply)
            }
            Err(failure) => {
                if let Some(ask) = parcel.first().filter(|_| is_of_the_server(&failure)) {
                    self.failed(self.place(ask));
                }
                parcel.all(&failure.into())
            }
        }
    }

    /// Requests that cannot be decided in one call, because their slot is moving and the keys of
    /// some have already moved. All at once, so that none waits for the others.
    async fn carry_apart(self: &Arc<Self>, lane: usize, parcel: &Parcel) -> Vec<Answer> {
        let flights: Vec<_> = apart(parcel.crowds())
            .into_iter()
            .map(|(places, part)| {
                let courier = Arc::clone(self);
                let flight = async move {
                    let outcome = courier.run(lane, &part).await;
                    courier.answers(&part, outcome)
                };
                (places, tokio::spawn(flight))
            })
            .collect();
        let mut answers = parcel.all(&abandoned());
        for (places, flight) in flights {
            for (place, answer) in places.into_iter().zip(flight.await.unwrap_or_default()) {
                answers[place] = answer;
            }
        }
        answers
    }
}

/// Requests, grouped by identical keys, with the positions of their answers.
fn apart(crowds: &[Crowd]) -> Vec<(Vec<usize>, Parcel)> {
    let mut parts: Vec<(Vec<usize>, Batch)> = Vec::new();
    let mut known: HashMap<Vec<Fingerprint>, usize> = HashMap::new();
    let mut place = 0;
    for crowd in crowds {
        let counters = crowd.ask.items().iter().map(|item| item.counter).collect();
        let part = *known.entry(counters).or_insert_with(|| {
            parts.push(Default::default());
            parts.len() - 1
        });
        parts[part].0.extend(place..place + crowd.size);
        parts[part].1.add(crowd.clone());
        place += crowd.size;
    }
    parts.into_iter().map(|(places, batch)| (places, batch.seal())).collect()
}

/// Where something is stored: a slot, and whose tag leads there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) slot: u16,
    pub(crate) subject: Fingerprint,
}

/// Checks whether Redis is back, until it is.
struct Probing {
    courier: Weak<Courier>,
    place: Place,
}

impl Probing {
    async fn run(self) {
        let mut pause = FIRST_PROBE;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PROBE);
            let Some(courier) = self.courier.upgrade() else { return };
            if courier.probe(self.place).await {
                return;
            }
        }
    }
}

/// Either Redis is back, or the runtime on which we would have noticed has ended, and callers on
/// another one have to find out.
impl Drop for Probing {
    fn drop(&mut self) {
        if let Some(courier) = self.courier.upgrade() {
            courier.breaker(self.place.slot).close();
        }
    }
}

/// Whether a failure says something about Redis as a whole, and not just about a few keys.
fn is_of_the_server(failure: &Failure) -> bool {
    failure.kind != StoreErrorKind::WrongType && !failure.keys_apart
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that carried the request has ended")
}

/// Neighbouring slots are mostly on the same node.
const BREAKERS_ON_A_CLUSTER: usize = 64;
