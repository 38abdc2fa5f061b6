//! Counters in Redis.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::{Charge, Fingerprint, Span, Timestamp};
use tidegate_store::{BlockingGuard, Store, StoreError, StoreErrorKind, StoreUsage, Verdicts};
use tokio::time::timeout;

use crate::batch::RedisRequest;
use crate::charge_placement;
use crate::charge_placement::ChargePlacement::{self, Apart, Together};
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
/// that is down or hangs is an error, and the policy says what that means.
#[derive(Debug)]
pub struct RedisStore {
    dispatcher: Arc<Dispatcher>,
    /// For our own keys.
    queues: RedisQueues,
    /// For keys that another limiter also writes: each of their calls has one request.
    shared_key_queues: RedisQueues,
    naming: Arc<KeyNamer>,
    settings_key: KeyName,
    instance_list_key: KeyName,
    secret: [u8; 16],
    deadline: Arc<RedisDeadline>,
    /// The same for threads that stand still until they are answered; made when the first one comes.
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
        let courier = Dispatcher::new(&builder, naming.clone(), deadline.clone());
        let queues = |ways: Vec<Vec<usize>>, depth| {
            let most = builder.max_waiting / ways.len();
            let queue =
                |lanes| RedisQueue::new(courier.clone(), lanes, depth, most, deadline.clone());
            ways.into_iter().map(queue).collect()
        };
        let of_few = || queues((0..lanes).map(|lane| vec![lane; SENDERS_PER_LANE]).collect(), 1);
        // Where calls may have any company, there is one queue, and each of its connections has
        // one flight, whose calls follow one another at a distance.
        let of_many = || queues(vec![(0..lanes).rev().collect()], CALLS_PER_SENDER);
        Self {
            queues: if courier.is_cluster() { of_few() } else { of_many() },
            shared_key_queues: of_few(),
            dispatcher: courier,
            naming,
            settings_key: shared_settings::name(builder.prefix.as_bytes(), &builder.secret),
            instance_list_key: shared_settings::name_of_list(builder.prefix.as_bytes()),
            secret: builder.secret,
            deadline,
            blocking_store: OnceLock::new(),
            builder,
        }
    }

    /// Who asks for this caller: a thread that stands still may be the one that would have to read the
    /// answer from a connection of ours, so it has connections of its own. Names, keys and deadlines
    /// are the same.
    #[inline]
    fn for_caller(&self) -> &Self {
        if BlockingGuard::is_active() { self.blocking_store() } else { self }
    }

    #[cold]
    fn blocking_store(&self) -> &Self {
        self.blocking_store.get_or_init(|| {
            let (naming, deadline) = (self.naming.clone(), self.deadline.clone());
            Box::new(Self::with(self.builder.clone(), naming, deadline))
        })
    }

    /// Whether Redis is currently being asked. While it does not answer it is not, and only a
    /// background probe checks whether it is back.
    pub fn is_available(&self) -> bool {
        let is_aside_open = || {
            self.blocking_store.get().is_some_and(|aside| aside.dispatcher.is_any_breaker_open())
        };
        !self.dispatcher.is_any_breaker_open() && !is_aside_open()
    }

    /// What an operator should know about how Redis is set up, such as that it may drop counters;
    /// or why that is unknown, such as that it cannot be reached.
    pub async fn setup_warnings(&self) -> Vec<String> {
        self.dispatcher.setup_warnings().await
    }

    pub(crate) const fn settings_key(&self) -> &KeyName {
        &self.settings_key
    }

    /// The list of instances.
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
    pub fn key_name(&self, charge: &Charge<'_>) -> Vec<u8> {
        self.naming.key_name(charge).as_bytes().to_vec()
    }

    /// Asks, and waits for the answer no longer than this, whatever happens.
    pub(crate) fn ask(&self, ask: RedisRequest, patience: Duration) -> TimedAnswer<'_> {
        let place = self.dispatcher.slot_of(&ask);
        let queue = self.queue_of(&ask);
        let asked = match self.dispatcher.breaker_cause(place.slot) {
            Some(cause) => Err(breaker_error(&cause)),
            None if patience.is_zero() => Err(no_answer(patience).into()),
            None => Ok(queue.enqueue(ask)),
        };
        self.answer(asked, place, queue, patience)
    }

    /// The same for a charge that another caller is already waiting for, in the same way.
    fn join_identical(&self, charge: &Charge<'_>, patience: Duration) -> Option<TimedAnswer<'_>> {
        if self.dispatcher.is_cluster()
            || self.dispatcher.is_breaker_open(0)
            || !self.naming.is_own_key(charge)
        {
            return None;
        }
        let queue = queue(&self.queues, charge.counter());
        let asked = queue.join_identical(charge)?;
        let place = ClusterSlot { slot: 0, subject: charge.subject() };
        Some(self.answer(Ok(asked), place, queue, patience))
    }

    fn answer<'a>(
        &'a self,
        asked: Result<PendingReply, StoreError>,
        place: ClusterSlot,
        queue: &'a RedisQueue<Arc<Dispatcher>>,
        patience: Duration,
    ) -> TimedAnswer<'a> {
        let (asked, refused) = match asked {
            Ok(asked) => (Some(timeout(patience, asked)), None),
            Err(error) => (None, Some(error)),
        };
        TimedAnswer { asked, refused, store: self, place, queue, patience }
    }

    #[cold]
    pub(crate) fn timeout_error(
        &self,
        place: ClusterSlot,
        queue: &RedisQueue<Arc<Dispatcher>>,
        patience: Duration,
    ) -> StoreError {
        // It left after it was requested, so it has been under way for less than that. If nothing has
        // been under way for long, the caller is hasty, or has spent its time elsewhere: that is no
        // fault of Redis.
        let late =
            queue.late_lanes(late_after(patience, self.deadline(), queue.usual_round_trip()));
        let failure = no_answer(patience);
        if !late.is_empty() {
            self.dispatcher.record_timeout(place, &late, &failure);
        }
        failure.into()
    }

    /// Leaves a request that nobody waits for: its answer changes nothing for anyone. It is in line
    /// before anything that is asked later together with `beside`.
    pub(crate) fn enqueue_unawaited(
        &self,
        ask: RedisRequest,
        beside: Fingerprint,
    ) -> Option<PendingReply> {
        let is_open = self.dispatcher.is_breaker_open(self.dispatcher.slot_of(&ask).slot);
        (!is_open).then(|| self.queue_for(&ask, beside).enqueue(ask))
    }

    fn queue_of(&self, ask: &RedisRequest) -> &Arc<RedisQueue<Arc<Dispatcher>>> {
        let counter = ask.items().first().map_or(Fingerprint::NONE, |item| item.counter);
        self.queue_for(ask, counter)
    }

    fn queue_for(
        &self,
        ask: &RedisRequest,
        counter: Fingerprint,
    ) -> &Arc<RedisQueue<Arc<Dispatcher>>> {
        queue(if ask.has_shared_keys() { &self.shared_key_queues } else { &self.queues }, counter)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.get()
    }
}

type RedisQueues = Vec<Arc<RedisQueue<Arc<Dispatcher>>>>;

/// All requests for a key take the same route, so that they find company.
fn queue(queues: &RedisQueues, counter: Fingerprint) -> &Arc<RedisQueue<Arc<Dispatcher>>> {
    &queues[counter.low() as usize % queues.len()]
}

#[cold]
fn no_answer(patience: Duration) -> RedisFailure {
    RedisFailure::unknown(StoreErrorKind::Timeout, format!("no answer within {patience:?}"))
}

/// Nobody asks until a probe is answered. Callers are told why, so that whoever counts and reads
/// their errors finds the cause for as long as it lasts.
#[cold]
fn breaker_error(cause: &RedisFailure) -> StoreError {
    StoreError::new(cause.kind, &*cause.message).with_outcome(false)
}

/// Calls under way on one connection if each carries little: on a Cluster one slot's keys, with a
/// key format one request.
const SENDERS_PER_LANE: usize = 256;
/// And at most, if each carries what it can: more than are under way with a far Redis.
const CALLS_PER_SENDER: usize = 32;

impl Store for RedisStore {
    fn settle(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        self.request_verdicts(charges, out, self.deadline())
    }

    fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Span,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        self.request_verdicts(charges, out, self.deadline().min(patience.into()))
    }

    fn is_stepwise(&self) -> bool {
        self.dispatcher.is_cluster() || self.naming.has_shared_keys()
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let ask = RedisRequest::Refund(Box::new(self.naming.item(charge)?));
        self.for_caller().ask(ask, self.deadline()).await.map(|_| ())
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let ask = RedisRequest::Reset(Box::new(self.naming.item(charge)?));
        self.for_caller().ask(ask, self.deadline()).await.map(|_| ())
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Some(self.secret)
    }

    fn names_keys(&self) -> bool {
        self.naming.has_format()
    }

    fn set_deadline(&self, longest: Span) {
        self.deadline.set(longest.into());
    }

    fn is_available(&self) -> bool {
        Self::is_available(self)
    }

    fn round_trip(&self) -> Option<Span> {
        let queues = self.queues.iter().chain(&self.shared_key_queues);
        let usual = queues.map(|queue| queue.usual_round_trip()).filter(|usual| !usual.is_zero());
        usual.min().map(|usual| Span::from_micros(usual.as_micros() as u64))
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        self.dispatcher.usage().await
    }
}

impl RedisStore {
    async fn request_verdicts(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        let store = self.for_caller();
        let joined = match charges {
            [charge] => store.join_identical(charge, patience),
            _ => None,
        };
        let answering = match joined {
            Some(answering) => answering,
            None => match store.place_charges(charges)? {
                None => return Ok(true),
                Some(Together(items)) => store.ask(RedisRequest::Settle(items), patience),
                Some(Apart(groups)) => {
                    return Box::pin(store.ask_stepwise(groups, out, patience)).await;
                }
            },
        };
        let (passes, verdicts) = answering.await?;
        append_verdicts(verdicts, out);
        Ok(passes)
    }

    /// What is to be asked, if anything is.
    fn place_charges(&self, charges: &[Charge<'_>]) -> Result<Option<ChargePlacement>, StoreError> {
        let items = self.naming.items(charges)?;
        let is_cluster = self.dispatcher.is_cluster();
        Ok(match items.len() {
            0 => None,
            1 => Some(Together(items)),
            _ if is_cluster || charge_placement::are_mixed(&items) => {
                Some(charge_placement::group_charges(items, is_cluster))
            }
            _ => Some(Together(items)),
        })
    }
}

/// Behind what is there, which is nearly always nothing.
fn append_verdicts(verdicts: Verdicts, out: &mut Verdicts) {
    if out.is_empty() {
        *out = verdicts;
    } else {
        out.extend(verdicts);
    }
}
