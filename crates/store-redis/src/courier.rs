//! Carries batches to Redis, and stops when Redis does not answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::{Fingerprint, Timestamp};
use tidegate_store::{Clock, StoreError, StoreErrorKind, SystemClock, Usage};
use tokio::time::Instant;

use crate::batch::{Answer, Ask, Batch, Crowd};
use crate::breaker::Breaker;
use crate::deadline::Deadline;
use crate::link::{Call, Failure, Link, Reply};
use crate::naming::Naming;
use crate::parcel::Parcel;
use crate::probe::Probing;
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

/// How long anyone waits for what no decision depends on.
const PATIENCE: Duration = Duration::from_millis(250);

impl Courier {
    pub(crate) fn new(
        builder: &RedisStoreBuilder,
        naming: Arc<Naming>,
        deadline: Arc<Deadline>,
    ) -> Arc<Self> {
        let link = Link::new(builder.config.clone(), builder.destination.clone());
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

    /// Why they are; nothing if they are not.
    pub(crate) fn cause(&self, slot: u16) -> Option<Failure> {
        self.breaker(slot).cause()
    }

    pub(crate) fn is_any_open(&self) -> bool {
        self.breakers.iter().any(Breaker::is_open)
    }

    pub(crate) fn breaker(&self, slot: u16) -> &Breaker {
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
        match self.link.memory(0, PATIENCE).await {
            Ok(memory) if memory.may_evict() => vec![format!(
                "maxmemory-policy is {:?}: Redis may drop counters when its memory is full, and \
                 whose counter is dropped has a fresh quota; set it to noeviction",
                memory.policy
            )],
            Ok(_) => Vec::new(),
            Err(failure) => vec![format!("could not see how Redis is set up: {failure}")],
        }
    }

    /// What Redis holds. For a Cluster the total is unknown, and one node speaks for all about how
    /// they are set up. A user without permission to ask learns nothing.
    pub(crate) async fn usage(&self) -> Result<Usage, StoreError> {
        let memory = self.link.memory(0, PATIENCE).await?;
        let usage = Usage { may_evict: Some(memory.may_evict()), ..Usage::default() };
        if self.link.is_cluster() {
            return Ok(usage);
        }
        Ok(Usage {
            bytes: memory.used,
            max_bytes: Some(memory.limit).filter(|limit| *limit > 0),
            keys: memory.keys,
            ..usage
        })
    }

    pub(crate) const fn link(&self) -> &Link {
        &self.link
    }

    /// A caller stopped waiting while calls on these connections were late.
    pub(crate) fn timed_out(self: &Arc<Self>, place: Place, late: &[usize], failure: &Failure) {
        late.iter().for_each(|lane| self.link.timed_out(place.slot, *lane));
        self.failed(place, failure);
    }

    fn failed(self: &Arc<Self>, place: Place, failure: &Failure) {
        if self.breaker(place.slot).failed(failure) {
            tokio::spawn(Probing::new(self, place).run());
        }
    }

    /// A decision about nobody, next to the counters of `subject`.
    pub(crate) fn probe_call(&self, subject: Fingerprint) -> Call {
        let mut batch = Batch::default();
        self.naming.probe(subject).into_iter().for_each(|ask| batch.add(Crowd::of_one(ask)));
        self.call(&batch.seal())
    }

    /// The longest that a decision may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.get()
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
        let began = now();
        match self.run(lane, parcel).await {
            Err(failure) if failure.keys_apart && parcel.crowds().len() > 1 => {
                self.carry_apart(lane, parcel).await
            }
            outcome => self.answers(parcel, outcome, began),
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

    fn answers(
        self: &Arc<Self>,
        parcel: &Parcel,
        outcome: Result<Reply, Failure>,
        began: Instant,
    ) -> Vec<Answer> {
        match outcome {
            Ok(reply) => {
                self.breaker(self.slot(parcel)).succeeded(began + self.deadline.get());
                parcel.answers(&reply)
            }
            Err(failure) => {
                if let Some(ask) = parcel.first().filter(|_| is_of_the_server(&failure)) {
                    self.failed(self.place(ask), &failure);
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
                    let began = now();
                    let outcome = courier.run(lane, &part).await;
                    courier.answers(&part, outcome, began)
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

#[allow(clippy::disallowed_methods, reason = "measures the store, and decides nothing")]
fn now() -> Instant {
    Instant::now()
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

/// Whether a failure says something about Redis as a whole, and not just about a few keys.
fn is_of_the_server(failure: &Failure) -> bool {
    failure.kind != StoreErrorKind::WrongType && !failure.keys_apart
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that carried the request has ended")
}

/// Neighbouring slots are mostly on the same node.
const BREAKERS_ON_A_CLUSTER: usize = 64;
