//! Sends batches to Redis, and stops while Redis does not answer.

mod computed;

use std::collections::HashMap;
use std::pin::Pin;
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

/// Turns batches into script calls, sends them over the link, and turns callers away while a breaker
/// is open.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    link: RedisLink,
    /// One breaker, or on a Cluster one for each range of slots: a node that is down does not affect
    /// clients whose counters are elsewhere.
    breakers: Box<[Breaker]>,
    naming: Arc<KeyNamer>,
    deadline: Arc<RedisDeadline>,
    /// Tells roughly which calendar windows are current.
    wall: SystemClock,
    /// The time to decide by, in microseconds, if it is not Redis's.
    manual_clock: Option<Arc<AtomicU64>>,
}

/// The time limit of queries that no decision depends on.
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

    /// Where a request is decided. Only a Cluster needs the slot, which takes a while to compute.
    pub(crate) fn slot_of(&self, request: &RedisRequest) -> ClusterSlot {
        let slot = if self.is_cluster() { request.slot() } else { 0 };
        ClusterSlot { slot, subject: request.subject() }
    }

    /// Whether requests for this slot are currently being turned away.
    pub(crate) fn is_breaker_open(&self, slot: u16) -> bool {
        self.breaker(slot).is_open()
    }

    /// Why requests for this slot are being turned away; `None` if they are not.
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

    /// Warnings about the configuration of Redis, or why the configuration is unknown.
    pub(crate) async fn setup_warnings(&self) -> Vec<String> {
        match self.link.memory(0, PATIENCE).await {
            Ok(memory) if memory.may_evict() => vec![format!(
                "maxmemory-policy is {:?}: Redis may evict counters when its memory is full, and a \
                 client whose counter is evicted has a fresh quota; set it to noeviction",
                memory.policy
            )],
            Ok(_) => Vec::new(),
            Err(failure) => vec![format!("could not read the configuration of Redis: {failure}")],
        }
    }

    /// How much Redis holds. On a Cluster the total is unknown, and the eviction policy is that of one
    /// node. Fails if the user has no permission to run `INFO`.
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

    /// Records that a caller stopped waiting while calls on these connections were late.
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

    /// A call whose decision affects no client, in the slot of the counters of `subject`.
    pub(crate) fn probe_call(&self, subject: Fingerprint) -> ScriptCall {
        let mut batch = RedisBatch::default();
        self.naming
            .probe(subject)
            .into_iter()
            .for_each(|request| batch.add(IdenticalRequests::single(request)));
        self.call(&batch.seal())
    }

    /// The longest that a decision may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.get()
    }

    fn call(&self, batch_call: &BatchCall) -> ScriptCall {
        let now = self.manual_clock.as_ref().map(|clock| clock.load(Ordering::SeqCst));
        let mut call = match batch_call.shared_key_request() {
            Some(request) => {
                shared_keys::call(request, if now.is_some() { &PLAIN_AT } else { &PLAIN })
            }
            None => {
                let script = if now.is_some() { &SETTLE_AT } else { &SETTLE };
                let mut call = ScriptCall::new(script, &batch_call.names());
                let time = now.map_or_else(|| self.wall.now(), Timestamp::from_micros);
                call.arg(batch_call.argument(time));
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

    async fn send(&self, lane: usize, batch_call: &BatchCall) -> Vec<RedisAnswer> {
        if batch_call.is_computed() {
            return self.send_part(lane, batch_call).await;
        }
        let began = now();
        match self.run(lane, batch_call).await {
            Err(failure) if failure.keys_apart && batch_call.groups().len() > 1 => {
                self.send_in_groups(lane, batch_call).await
            }
            outcome => self.answers(batch_call, outcome, began),
        }
    }
}

impl Dispatcher {
    async fn run(&self, lane: usize, batch_call: &BatchCall) -> Result<RedisReply, RedisFailure> {
        self.link.run(self.slot_of_call(batch_call), lane, &self.call(batch_call)).await
    }

    fn slot_of_call(&self, batch_call: &BatchCall) -> u16 {
        batch_call.first().map_or(0, |request| self.slot_of(request).slot)
    }

    fn answers(
        self: &Arc<Self>,
        batch_call: &BatchCall,
        outcome: Result<RedisReply, RedisFailure>,
        began: Instant,
    ) -> Vec<RedisAnswer> {
        match outcome {
            Ok(reply) => {
                self.breaker(self.slot_of_call(batch_call))
                    .record_success(began + self.deadline.get());
                batch_call.answers(&reply)
            }
            Err(failure) => {
                if let Some(request) = batch_call.first().filter(|_| is_server_failure(&failure)) {
                    self.record_failure(self.slot_of(request), &failure);
                }
                batch_call.fail_all(&failure.into())
            }
        }
    }

    /// Sends a call that is decided here, or one group of a call whose keys are apart. Boxed, because
    /// the former may be divided into the latter, and so that other calls stay small.
    fn send_part<'a>(self: &'a Arc<Self>, lane: usize, part: &'a BatchCall) -> PartAnswers<'a> {
        Box::pin(async move {
            if part.is_computed() {
                return self.compute(lane, part).await;
            }
            let began = now();
            let outcome = self.run(lane, part).await;
            self.answers(part, outcome, began)
        })
    }

    /// Sends requests that cannot share a call because their slot is migrating and the keys of some
    /// have already moved: a call for each group with the same keys. The calls run concurrently, so
    /// that none waits for the others.
    async fn send_in_groups(
        self: &Arc<Self>,
        lane: usize,
        batch_call: &BatchCall,
    ) -> Vec<RedisAnswer> {
        let calls: Vec<_> = group_by_keys(batch_call.groups())
            .into_iter()
            .map(|(positions, part)| {
                let dispatcher = Arc::clone(self);
                let call = async move { dispatcher.send_part(lane, &part).await };
                (positions, tokio::spawn(call))
            })
            .collect();
        let mut answers = batch_call.fail_all(&abandoned());
        for (positions, call) in calls {
            for (position, answer) in positions.into_iter().zip(call.await.unwrap_or_default()) {
                answers[position] = answer;
            }
        }
        answers
    }
}

/// The answers to a part of a call.
type PartAnswers<'a> = Pin<Box<dyn Future<Output = Vec<RedisAnswer>> + Send + 'a>>;

#[allow(clippy::disallowed_methods, reason = "measures the store, and decides nothing")]
fn now() -> Instant {
    Instant::now()
}

/// Requests, grouped by identical keys, with the positions of their answers.
fn group_by_keys(groups: &[IdenticalRequests]) -> Vec<(Vec<usize>, BatchCall)> {
    let mut parts: Vec<(Vec<usize>, RedisBatch)> = Vec::new();
    let mut known: HashMap<Vec<Fingerprint>, usize> = HashMap::new();
    let mut position = 0;
    for group in groups {
        let counters = group.request.items().iter().map(|item| item.counter).collect();
        let part = *known.entry(counters).or_insert_with(|| {
            parts.push(Default::default());
            parts.len() - 1
        });
        parts[part].0.extend(position..position + group.size);
        parts[part].1.add(group.clone());
        position += group.size;
    }
    parts.into_iter().map(|(positions, batch)| (positions, batch.seal())).collect()
}

/// A slot, and a subject whose hash tag is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterSlot {
    pub(crate) slot: u16,
    pub(crate) subject: Fingerprint,
}

/// Whether a failure concerns Redis as a whole, and not just a few keys.
fn is_server_failure(failure: &RedisFailure) -> bool {
    failure.kind != StoreErrorKind::WrongType && !failure.keys_apart
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that sent the request has ended")
}

/// Each breaker covers a range of slots: neighbouring slots are mostly on the same node.
const BREAKERS_ON_A_CLUSTER: usize = 64;
