//! Carries batches to Redis, and stops when Redis does not answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::{Fingerprint, Timestamp};
use tidegate_store::{Clock, StoreError, StoreErrorKind, StoreUsage, SystemClock};
use tokio::time::Instant;

use crate::batch::{IdenticalRequests, RedisAnswer, RedisBatch, RedisRequest};
use crate::batch_call::BatchCall;
use crate::breaker::Breaker;
use crate::deadline::RedisDeadline;
use crate::key_namer::KeyNamer;
use crate::link::{RedisFailure, RedisLink, RedisReply, ScriptCall};
use crate::queue::RedisTransport;
use crate::recovery_probe::RecoveryProbe;
use crate::script::{PLAIN, PLAIN_AT, SETTLE, SETTLE_AT};
use crate::{RedisStoreBuilder, shared_keys};

/// Sits between the batches and the link: the script, the breaker and its probe.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    link: RedisLink,
    /// One breaker, or on a Cluster one for each of this many ranges of slots: a node that is down
    /// affects nobody whose counters are elsewhere.
    breakers: Box<[Breaker]>,
    naming: Arc<KeyNamer>,
    deadline: Arc<RedisDeadline>,
    /// Tells roughly which month it is.
    wall: SystemClock,
    /// The time to decide by, in microseconds, if it is not Redis's.
    manual_clock: Option<Arc<AtomicU64>>,
}

/// How long anyone waits for what no decision depends on.
const PATIENCE: Duration = Duration::from_millis(250);

impl Dispatcher {
    pub(crate) fn new(
        builder: &RedisStoreBuilder,
        naming: Arc<KeyNamer>,
        deadline: Arc<RedisDeadline>,
    ) -> Arc<Self> {
        let link = RedisLink::new(builder.config.clone(), builder.destination.clone());
        let breakers = if link.is_cluster() { BREAKERS_ON_A_CLUSTER } else { 1 };
        Arc::new(Self {
            link,
            breakers: (0..breakers).map(|_| Breaker::new()).collect(),
            naming,
            deadline,
            wall: SystemClock::new(),
            manual_clock: builder.manual_clock.clone(),
        })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.link.is_cluster()
    }

    /// Where a request is decided. Only a Cluster has slots, and computing one takes a while.
    pub(crate) fn slot_of(&self, ask: &RedisRequest) -> ClusterSlot {
        let slot = if self.is_cluster() { ask.slot() } else { 0 };
        ClusterSlot { slot, subject: ask.subject() }
    }

    /// Whether requests for this slot are currently being turned away.
    pub(crate) fn is_breaker_open(&self, slot: u16) -> bool {
        self.breaker(slot).is_open()
    }

    /// Why they are; nothing if they are not.
    pub(crate) fn breaker_cause(&self, slot: u16) -> Option<RedisFailure> {
        self.breaker(slot).cause()
    }

    pub(crate) fn is_any_breaker_open(&self) -> bool {
        self.breakers.iter().any(Breaker::is_open)
    }

    pub(crate) fn breaker(&self, slot: u16) -> &Breaker {
        let range = usize::from(slot) * self.breakers.len() / usize::from(crate::slot::COUNT);
        &self.breakers[range.min(self.breakers.len() - 1)]
    }

    pub(crate) fn set_now(&self, now: Timestamp) {
        if let Some(clock) = &self.manual_clock {
            clock.store(now.as_micros(), Ordering::SeqCst);
        }
    }

    /// What an operator should know about how Redis is set up, or why that is unknown.
    pub(crate) async fn setup_warnings(&self) -> Vec<String> {
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
    pub(crate) async fn usage(&self) -> Result<StoreUsage, StoreError> {
        let memory = self.link.memory(0, PATIENCE).await?;
        let usage = StoreUsage { may_evict: Some(memory.may_evict()), ..StoreUsage::default() };
        if self.link.is_cluster() {
            return Ok(usage);
        }
        Ok(StoreUsage {
            bytes: memory.used,
            max_bytes: Some(memory.limit).filter(|limit| *limit > 0),
            keys: memory.keys,
            ..usage
        })
    }

    pub(crate) const fn link(&self) -> &RedisLink {
        &self.link
    }

    /// A caller stopped waiting while calls on these connections were late.
    pub(crate) fn record_timeout(
        self: &Arc<Self>,
        place: ClusterSlot,
        late: &[usize],
        failure: &RedisFailure,
    ) {
        late.iter().for_each(|lane| self.link.record_timeout(place.slot, *lane));
        self.record_failure(place, failure);
    }

    fn record_failure(self: &Arc<Self>, place: ClusterSlot, failure: &RedisFailure) {
        if self.breaker(place.slot).record_failure(failure) {
            tokio::spawn(RecoveryProbe::new(self, place).run());
        }
    }

    /// A decision about nobody, next to the counters of `subject`.
    pub(crate) fn probe_call(&self, subject: Fingerprint) -> ScriptCall {
        let mut batch = RedisBatch::default();
        self.naming
            .probe(subject)
            .into_iter()
            .for_each(|ask| batch.add(IdenticalRequests::single(ask)));
        self.call(&batch.seal())
    }

    /// The longest that a decision may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.get()
    }

    fn call(&self, parcel: &BatchCall) -> ScriptCall {
        let now = self.manual_clock.as_ref().map(|clock| clock.load(Ordering::SeqCst));
        let mut call = match parcel.shared_key_request() {
            Some(ask) => shared_keys::call(ask, if now.is_some() { &PLAIN_AT } else { &PLAIN }),
            None => {
                let script = if now.is_some() { &SETTLE_AT } else { &SETTLE };
                let mut call = ScriptCall::new(script, &parcel.names());
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

impl RedisTransport for Arc<Dispatcher> {
    fn needs_single_slot(&self) -> bool {
        self.link.is_cluster()
    }

    async fn send(&self, lane: usize, parcel: &BatchCall) -> Vec<RedisAnswer> {
        let began = now();
        match self.run(lane, parcel).await {
            Err(failure) if failure.keys_apart && parcel.groups().len() > 1 => {
                self.send_in_groups(lane, parcel).await
            }
            outcome => self.answers(parcel, outcome, began),
        }
    }
}

impl Dispatcher {
    async fn run(&self, lane: usize, parcel: &BatchCall) -> Result<RedisReply, RedisFailure> {
        self.link.run(self.slot_of_call(parcel), lane, &self.call(parcel)).await
    }

    fn slot_of_call(&self, parcel: &BatchCall) -> u16 {
        parcel.first().map_or(0, |ask| self.slot_of(ask).slot)
    }

    fn answers(
        self: &Arc<Self>,
        parcel: &BatchCall,
        outcome: Result<RedisReply, RedisFailure>,
        began: Instant,
    ) -> Vec<RedisAnswer> {
        match outcome {
            Ok(reply) => {
                self.breaker(self.slot_of_call(parcel)).record_success(began + self.deadline.get());
                parcel.answers(&reply)
            }
            Err(failure) => {
                if let Some(ask) = parcel.first().filter(|_| is_server_failure(&failure)) {
                    self.record_failure(self.slot_of(ask), &failure);
                }
                parcel.fail_all(&failure.into())
            }
        }
    }

    /// Requests that cannot be decided in one call, because their slot is moving and the keys of
    /// some have already moved. All at once, so that none waits for the others.
    async fn send_in_groups(self: &Arc<Self>, lane: usize, parcel: &BatchCall) -> Vec<RedisAnswer> {
        let flights: Vec<_> = group_by_keys(parcel.groups())
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
        let mut answers = parcel.fail_all(&abandoned());
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
fn group_by_keys(crowds: &[IdenticalRequests]) -> Vec<(Vec<usize>, BatchCall)> {
    let mut parts: Vec<(Vec<usize>, RedisBatch)> = Vec::new();
    let mut known: HashMap<Vec<Fingerprint>, usize> = HashMap::new();
    let mut place = 0;
    for crowd in crowds {
        let counters = crowd.request.items().iter().map(|item| item.counter).collect();
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
pub(crate) struct ClusterSlot {
    pub(crate) slot: u16,
    pub(crate) subject: Fingerprint,
}

/// Whether a failure says something about Redis as a whole, and not just about a few keys.
fn is_server_failure(failure: &RedisFailure) -> bool {
    failure.kind != StoreErrorKind::WrongType && !failure.keys_apart
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that carried the request has ended")
}

/// Neighbouring slots are mostly on the same node.
const BREAKERS_ON_A_CLUSTER: usize = 64;
