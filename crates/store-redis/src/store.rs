//! The store that keeps its counters in Redis.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::{Charge, Fingerprint, Timestamp};
use tidegate_store::{BlockingGuard, StoreError, StoreErrorKind};
use tokio::time::timeout;

use crate::batch::RedisRequest;
use crate::deadline::{RedisDeadline, late_after};
use crate::dispatcher::{ClusterSlot, Dispatcher};
use crate::key_name::KeyName;
use crate::key_namer::KeyNamer;
use crate::link::{RedisFailure, RedisLink};
use crate::queue::{PendingReply, RedisQueue};
use crate::timed_answer::TimedAnswer;
use crate::{RedisConfig, RedisStoreBuilder, shared_settings};

/// Counters that every instance shares, in Redis: standalone, behind Sentinel, or a Cluster.
///
/// Decisions are the same as the embedded store's, to the last unit. A script decides in Redis, by
/// Redis's clock, so it does not matter what time the instances think it is. Many decisions share a
/// call.
///
/// Building the store does not connect, and nothing ever waits longer than the deadline: a Redis
/// that is down or hangs is an error, and the policy decides what follows.
///
/// ```no_run
/// use tidegate::{Limiter, RedisConfig, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config: RedisConfig = "redis://127.0.0.1:6379".parse()?;
/// let store = RedisStore::builder(config).secret("of this deployment").build();
/// let limiter = Limiter::builder().name("api").limit("100/minute").store(store).build()?;
/// let decision = limiter.check("alice").await;
/// println!("{} by the {}", decision.is_allowed(), decision.source());
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// A decision takes one round trip, which it shares with the decisions that are made at the same time; with an
/// algorithm that has no script, such as a stepped window, two. A
/// counter is one key, which expires when it stops mattering. After some failures in a row, requests fail at
/// once until a probe finds Redis again, so that an outage takes neither time nor memory.
pub struct RedisStore {
    pub(crate) dispatcher: Arc<Dispatcher>,
    /// For our own keys.
    pub(crate) queues: RedisQueues,
    /// For keys that another limiter also writes: each of their calls carries one request.
    pub(crate) shared_key_queues: RedisQueues,
    /// For limits that no script can decide: each of their calls takes two round trips or more.
    pub(crate) computed_queues: RedisQueues,
    pub(crate) naming: Arc<KeyNamer>,
    settings_key: KeyName,
    instance_list_key: KeyName,
    pub(crate) secret: [u8; 16],
    pub(crate) deadline: Arc<RedisDeadline>,
    /// The same store for threads that block until the answer arrives, created for the first of them.
    blocking_store: OnceLock<Box<Self>>,
    builder: RedisStoreBuilder,
}

impl RedisStore {
    /// Configures what is not in the URL.
    pub fn builder(config: RedisConfig) -> RedisStoreBuilder {
        RedisStoreBuilder::new(config)
    }

    pub(crate) fn new(builder: RedisStoreBuilder) -> Self {
        let naming = Arc::new(KeyNamer::new(&builder));
        let deadline = RedisDeadline::new(builder.deadline);
        Self::with(builder, naming, deadline)
    }

    fn with(
        builder: RedisStoreBuilder,
        naming: Arc<KeyNamer>,
        deadline: Arc<RedisDeadline>,
    ) -> Self {
        let lanes = builder.config.connections.max(1);
        let dispatcher = Dispatcher::new(&builder, naming.clone(), deadline.clone());
        let queues = |ways: Vec<Vec<usize>>, depth| {
            let most = builder.max_waiting / ways.len();
            let queue =
                |lanes| RedisQueue::new(dispatcher.clone(), lanes, depth, most, deadline.clone());
            ways.into_iter().map(queue).collect()
        };
        let per_lane = || queues((0..lanes).map(|lane| vec![lane; SENDERS_PER_LANE]).collect(), 1);
        // Without a Cluster, any requests can share a call. So there is one queue, and each
        // connection has one sender, whose calls follow one another at a distance.
        let common = || queues(vec![(0..lanes).rev().collect()], CALLS_PER_SENDER);
        // A counter is in flight once: two calls that change it would get in each other's way.
        let exclusive = |queues: RedisQueues| queues.into_iter().map(RedisQueue::exclusive);
        let computed_queues = match dispatcher.is_cluster() {
            true => per_lane(),
            false => queues(vec![(0..lanes).rev().collect()], 1),
        };
        let computed_queues = exclusive(computed_queues).collect();
        Self {
            queues: if dispatcher.is_cluster() { per_lane() } else { common() },
            shared_key_queues: per_lane(),
            computed_queues,
            dispatcher,
            naming,
            settings_key: shared_settings::name(builder.prefix.as_bytes(), &builder.secret),
            instance_list_key: shared_settings::name_of_list(builder.prefix.as_bytes()),
            secret: builder.secret,
            deadline,
            blocking_store: OnceLock::new(),
            builder,
        }
    }

    /// The store that serves this caller. A thread that blocks may be the one that would have to read
    /// the answer from one of our connections, so blocking callers have connections of their own.
    /// Names, keys and deadlines are the same.
    #[inline]
    pub(crate) fn for_caller(&self) -> &Self {
        if BlockingGuard::is_active() { self.blocking_store() } else { self }
    }

    #[cold]
    fn blocking_store(&self) -> &Self {
        self.blocking_store.get_or_init(|| {
            let (naming, deadline) = (self.naming.clone(), self.deadline.clone());
            Box::new(Self::with(self.builder.clone(), naming, deadline))
        })
    }

    /// Whether requests are currently sent to Redis. While Redis does not answer they are not, and only
    /// a background probe checks whether it is back.
    pub fn is_available(&self) -> bool {
        let is_blocking_open = || {
            self.blocking_store.get().is_some_and(|store| store.dispatcher.is_any_breaker_open())
        };
        !self.dispatcher.is_any_breaker_open() && !is_blocking_open()
    }

    /// Warnings about the configuration of Redis, such as that it may evict counters; or why the
    /// configuration is unknown, such as that Redis cannot be reached.
    pub async fn setup_warnings(&self) -> Vec<String> {
        self.dispatcher.setup_warnings().await
    }

    pub(crate) const fn settings_key(&self) -> &KeyName {
        &self.settings_key
    }

    /// The key of the list of instances.
    pub(crate) const fn instance_list_key(&self) -> &KeyName {
        &self.instance_list_key
    }

    pub(crate) fn link(&self) -> &RedisLink {
        self.dispatcher.link()
    }

    /// Decides by this time instead of Redis's, so that tests can move it.
    #[doc(hidden)]
    pub fn set_now(&self, now: Timestamp) {
        self.dispatcher.set_now(now);
    }

    /// The name of a charge's key in Redis. If a [`KeyFormat`](crate::KeyFormat) has a key for each
    /// window, a `*` stands for the window.
    ///
    /// For operators who want to look at a counter. A name in our own format is not text.
    pub fn key_name(&self, charge: &Charge<'_>) -> Vec<u8> {
        self.naming.key_name(charge).as_bytes().to_vec()
    }

    /// Queues a request, and waits for the answer no longer than `patience`, whatever happens.
    pub(crate) fn ask(&self, request: RedisRequest, patience: Duration) -> TimedAnswer<'_> {
        let place = self.dispatcher.slot_of(&request);
        let queue = self.queue_of(&request);
        let pending = match self.dispatcher.breaker_cause(place.slot) {
            Some(cause) => Err(breaker_error(&cause)),
            None if patience.is_zero() => Err(no_answer(patience).into()),
            None => Ok(queue.enqueue(request)),
        };
        self.answer(pending, place, queue, patience)
    }

    /// The same for a charge that is identical to a request already in the queue.
    pub(crate) fn join_identical(
        &self,
        charge: &Charge<'_>,
        patience: Duration,
    ) -> Option<TimedAnswer<'_>> {
        if self.dispatcher.is_cluster()
            || self.dispatcher.is_breaker_open(0)
            || !self.naming.is_own_key(charge)
        {
            return None;
        }
        let is_computed = self.naming.is_computed(charge);
        let queues = if is_computed { &self.computed_queues } else { &self.queues };
        let queue = queue(queues, charge.counter());
        let pending = queue.join_identical(charge)?;
        let place = ClusterSlot { slot: 0, subject: charge.subject() };
        Some(self.answer(Ok(pending), place, queue, patience))
    }

    fn answer<'a>(
        &'a self,
        pending: Result<PendingReply, StoreError>,
        place: ClusterSlot,
        queue: &'a RedisQueue<Arc<Dispatcher>>,
        patience: Duration,
    ) -> TimedAnswer<'a> {
        let (pending, refused) = match pending {
            Ok(pending) => (Some(timeout(patience, pending)), None),
            Err(error) => (None, Some(error)),
        };
        TimedAnswer { pending, refused, store: self, place, queue, patience }
    }

    #[cold]
    pub(crate) fn timeout_error(
        &self,
        place: ClusterSlot,
        queue: &RedisQueue<Arc<Dispatcher>>,
        patience: Duration,
    ) -> StoreError {
        // A call is sent after its requests were queued, so it has been under way for less than
        // `patience`. If no call has been under way for long, the caller has little time or spent it
        // elsewhere, which is not a fault of Redis.
        let late =
            queue.late_lanes(late_after(patience, self.deadline(), queue.usual_round_trip()));
        let failure = no_answer(patience);
        if !late.is_empty() {
            self.dispatcher.record_timeout(place, &late, &failure);
        }
        failure.into()
    }

    /// Queues a request whose answer no caller waits for, ahead of all later requests that begin with
    /// the counter `beside`.
    pub(crate) fn enqueue_unawaited(
        &self,
        request: RedisRequest,
        beside: Fingerprint,
    ) -> Option<PendingReply> {
        let is_open = self.dispatcher.is_breaker_open(self.dispatcher.slot_of(&request).slot);
        (!is_open).then(|| self.queue_for(&request, beside).enqueue(request))
    }

    fn queue_of(&self, request: &RedisRequest) -> &Arc<RedisQueue<Arc<Dispatcher>>> {
        let counter = request.items().first().map_or(Fingerprint::NONE, |item| item.counter);
        self.queue_for(request, counter)
    }

    fn queue_for(
        &self,
        request: &RedisRequest,
        counter: Fingerprint,
    ) -> &Arc<RedisQueue<Arc<Dispatcher>>> {
        let queues = match request {
            _ if request.has_shared_keys() => &self.shared_key_queues,
            _ if request.is_computed() => &self.computed_queues,
            _ => &self.queues,
        };
        queue(queues, counter)
    }

    pub(crate) const fn config(&self) -> &RedisConfig {
        &self.builder.config
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.get()
    }
}

type RedisQueues = Vec<Arc<RedisQueue<Arc<Dispatcher>>>>;

/// All requests for a key use the same queue, so that they can share calls.
fn queue(queues: &RedisQueues, counter: Fingerprint) -> &Arc<RedisQueue<Arc<Dispatcher>>> {
    &queues[counter.low() as usize % queues.len()]
}

#[cold]
fn no_answer(patience: Duration) -> RedisFailure {
    RedisFailure::unknown(StoreErrorKind::Timeout, format!("no answer within {patience:?}"))
}

/// The error while a breaker is open. It carries the cause, so that logs and metrics show the cause
/// for as long as it lasts.
#[cold]
fn breaker_error(cause: &RedisFailure) -> StoreError {
    StoreError::new(cause.kind, &*cause.message).with_outcome(false)
}

/// The most calls under way on one connection if each carries little: on a Cluster the keys of one
/// slot, with a key format one request.
const SENDERS_PER_LANE: usize = 256;
/// The same if each call carries as much as fits: more than even a far Redis has under way.
const CALLS_PER_SENDER: usize = 32;
