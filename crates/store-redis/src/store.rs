//! Counters in Redis.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_core::{Charge, Fingerprint, Span, Timestamp};
use tidegate_store::{Blocking, Store, StoreError, StoreErrorKind, Usage, Verdicts};
use tokio::time::timeout;

use crate::answering::Answering;
use crate::apart;
use crate::apart::Places::{self, Apart, Together};
use crate::batch::Ask;
use crate::courier::{Courier, Place};
use crate::deadline::{Deadline, late_after};
use crate::key::KeyName;
use crate::link::{Failure, Link};
use crate::naming::Naming;
use crate::queue::{Asked, Queue};
use crate::{RedisConfig, RedisStoreBuilder, board};

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
    courier: Arc<Courier>,
    /// For our own keys.
    queues: Queues,
    /// For keys that another limiter also writes: each of their calls has one request.
    plain_queues: Queues,
    naming: Arc<Naming>,
    board: KeyName,
    list: KeyName,
    secret: [u8; 16],
    deadline: Arc<Deadline>,
    /// The same for threads that stand still until they are answered; made when the first one comes.
    aside: OnceLock<Box<Self>>,
    builder: RedisStoreBuilder,
}

impl RedisStore {
    /// Configures what is not in the URL.
    pub fn builder(config: RedisConfig) -> RedisStoreBuilder {
        RedisStoreBuilder::new(config)
    }

    pub(crate) fn new(builder: RedisStoreBuilder) -> Self {
        let naming = Arc::new(Naming::new(&builder));
        let deadline = Deadline::new(builder.deadline);
        Self::with(builder, naming, deadline)
    }

    fn with(builder: RedisStoreBuilder, naming: Arc<Naming>, deadline: Arc<Deadline>) -> Self {
        let lanes = builder.config.connections.max(1);
        let courier = Courier::new(&builder, naming.clone(), deadline.clone());
        let queues = |ways: Vec<Vec<usize>>, depth| {
            let most = builder.max_waiting / ways.len();
            let queue = |lanes| Queue::new(courier.clone(), lanes, depth, most, deadline.clone());
            ways.into_iter().map(queue).collect()
        };
        let of_few = || queues((0..lanes).map(|lane| vec![lane; FLIGHTS_OF_FEW]).collect(), 1);
        // Where calls may have any company, there is one queue, and each of its connections has
        // one flight, whose calls follow one another at a distance.
        let of_many = || queues(vec![(0..lanes).rev().collect()], CALLS_OF_MANY);
        Self {
            queues: if courier.is_cluster() { of_few() } else { of_many() },
            plain_queues: of_few(),
            courier,
            naming,
            board: board::name(builder.prefix.as_bytes(), &builder.secret),
            list: board::name_of_list(builder.prefix.as_bytes()),
            secret: builder.secret,
            deadline,
            aside: OnceLock::new(),
            builder,
        }
    }

    /// Who asks for this caller: a thread that stands still may be the one that would have to read the
    /// answer from a connection of ours, so it has connections of its own. Names, keys and deadlines
    /// are the same.
    #[inline]
    fn for_caller(&self) -> &Self {
        if Blocking::is_here() { self.aside() } else { self }
    }

    #[cold]
    fn aside(&self) -> &Self {
        self.aside.get_or_init(|| {
            let (naming, deadline) = (self.naming.clone(), self.deadline.clone());
            Box::new(Self::with(self.builder.clone(), naming, deadline))
        })
    }

    /// Whether Redis is currently being asked. While it does not answer it is not, and only a
    /// background probe checks whether it is back.
    pub fn is_available(&self) -> bool {
        let is_aside_open = || self.aside.get().is_some_and(|aside| aside.courier.is_any_open());
        !self.courier.is_any_open() && !is_aside_open()
    }

    /// What an operator should know about how Redis is set up, such as that it may drop counters;
    /// or why that is unknown, such as that it cannot be reached.
    pub async fn doubts(&self) -> Vec<String> {
        self.courier.doubts().await
    }

    pub(crate) const fn board_name(&self) -> &KeyName {
        &self.board
    }

    /// The list of instances.
    pub(crate) const fn list_name(&self) -> &KeyName {
        &self.list
    }

    pub(crate) fn link(&self) -> &Link {
        self.courier.link()
    }

    /// Decides by this time instead of Redis's, so that tests can move it.
    #[doc(hidden)]
    pub fn set_now(&self, now: Timestamp) {
        self.courier.set_now(now);
    }

    /// The name of a charge's key in Redis. If a [`KeyFormat`](crate::KeyFormat) has a key for each
    /// window, a `*` stands for the window.
    pub fn key_name(&self, charge: &Charge<'_>) -> Vec<u8> {
        self.naming.key_name(charge).as_bytes().to_vec()
    }

    /// Asks, and waits for the answer no longer than this, whatever happens.
    pub(crate) fn ask(&self, ask: Ask, patience: Duration) -> Answering<'_> {
        let place = self.courier.place(&ask);
        let queue = self.queue_of(&ask);
        let asked = match self.courier.cause(place.slot) {
            Some(cause) => Err(unasked(&cause)),
            None if patience.is_zero() => Err(no_answer(patience).into()),
            None => Ok(queue.ask(ask)),
        };
        self.answer(asked, place, queue, patience)
    }

    /// The same for a charge that another caller is already waiting for, in the same way.
    fn join(&self, charge: &Charge<'_>, patience: Duration) -> Option<Answering<'_>> {
        if self.courier.is_cluster() || self.courier.is_open(0) || !self.naming.is_ours(charge) {
            return None;
        }
        let queue = queue(&self.queues, charge.counter());
        let asked = queue.join(charge)?;
        let place = Place { slot: 0, subject: charge.subject() };
        Some(self.answer(Ok(asked), place, queue, patience))
    }

    fn answer<'a>(
        &'a self,
        asked: Result<Asked, StoreError>,
        place: Place,
        queue: &'a Queue<Arc<Courier>>,
        patience: Duration,
    ) -> Answering<'a> {
        let (asked, refused) = match asked {
            Ok(asked) => (Some(timeout(patience, asked)), None),
            Err(error) => (None, Some(error)),
        };
        Answering { asked, refused, store: self, place, queue, patience }
    }

    #[cold]
    pub(crate) fn timed_out(
        &self,
        place: Place,
        queue: &Queue<Arc<Courier>>,
        patience: Duration,
    ) -> StoreError {
        // It left after it was requested, so it has been under way for less than that. If nothing has
        // been under way for long, the caller is hasty, or has spent its time elsewhere: that is no
        // fault of Redis.
        let late = queue.overdue(late_after(patience, self.deadline(), queue.usual()));
        let failure = no_answer(patience);
        if !late.is_empty() {
            self.courier.timed_out(place, &late, &failure);
        }
        failure.into()
    }

    /// Leaves a request that nobody waits for: its answer changes nothing for anyone. It is in line
    /// before anything that is asked later together with `beside`.
    pub(crate) fn leave(&self, ask: Ask, beside: Fingerprint) -> Option<Asked> {
        let is_open = self.courier.is_open(self.courier.place(&ask).slot);
        (!is_open).then(|| self.queue_for(&ask, beside).ask(ask))
    }

    fn queue_of(&self, ask: &Ask) -> &Arc<Queue<Arc<Courier>>> {
        let counter = ask.items().first().map_or(Fingerprint::NONE, |item| item.counter);
        self.queue_for(ask, counter)
    }

    fn queue_for(&self, ask: &Ask, counter: Fingerprint) -> &Arc<Queue<Arc<Courier>>> {
        queue(if ask.is_plain() { &self.plain_queues } else { &self.queues }, counter)
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.get()
    }
}

type Queues = Vec<Arc<Queue<Arc<Courier>>>>;

/// All requests for a key take the same route, so that they find company.
fn queue(queues: &Queues, counter: Fingerprint) -> &Arc<Queue<Arc<Courier>>> {
    &queues[counter.low() as usize % queues.len()]
}

#[cold]
fn no_answer(patience: Duration) -> Failure {
    Failure::unknown(StoreErrorKind::Timeout, format!("no answer within {patience:?}"))
}

/// Nobody asks until a probe is answered. Callers are told why, so that whoever counts and reads
/// their errors finds the cause for as long as it lasts.
#[cold]
fn unasked(cause: &Failure) -> StoreError {
    StoreError::new(cause.kind, &*cause.message).with_outcome(false)
}

/// Calls under way on one connection if each carries little: on a Cluster one slot's keys, with a
/// key format one request.
const FLIGHTS_OF_FEW: usize = 256;
/// And at most, if each carries what it can: more than are under way with a far Redis.
const CALLS_OF_MANY: usize = 32;

impl Store for RedisStore {
    fn settle(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        self.settle_by(charges, out, self.deadline())
    }

    fn settle_within(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Span,
    ) -> impl Future<Output = Result<bool, StoreError>> + Send {
        self.settle_by(charges, out, self.deadline().min(patience.into()))
    }

    fn settles_in_steps(&self) -> bool {
        self.courier.is_cluster() || self.naming.is_shared()
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let ask = Ask::Refund(Box::new(self.naming.item(charge)?));
        self.for_caller().ask(ask, self.deadline()).await.map(|_| ())
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let ask = Ask::Reset(Box::new(self.naming.item(charge)?));
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
        let queues = self.queues.iter().chain(&self.plain_queues);
        let usual = queues.map(|queue| queue.usual()).filter(|usual| !usual.is_zero());
        usual.min().map(|usual| Span::from_micros(usual.as_micros() as u64))
    }

    async fn usage(&self) -> Result<Usage, StoreError> {
        self.courier.usage().await
    }
}

impl RedisStore {
    async fn settle_by(
        &self,
        charges: &[Charge<'_>],
        out: &mut Verdicts,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        let store = self.for_caller();
        let joined = match charges {
            [charge] => store.join(charge, patience),
            _ => None,
        };
        let answering = match joined {
            Some(answering) => answering,
            None => match store.gather(charges)? {
                None => return Ok(true),
                Some(Together(items)) => store.ask(Ask::Settle(items), patience),
                Some(Apart(groups)) => {
                    return Box::pin(store.settle_apart(groups, out, patience)).await;
                }
            },
        };
        let (passes, verdicts) = answering.await?;
        hand_over(verdicts, out);
        Ok(passes)
    }

    /// What is to be asked, if anything is.
    fn gather(&self, charges: &[Charge<'_>]) -> Result<Option<Places>, StoreError> {
        let items = self.naming.items(charges)?;
        let is_cluster = self.courier.is_cluster();
        Ok(match items.len() {
            0 => None,
            1 => Some(Together(items)),
            _ if is_cluster || apart::are_mixed(&items) => Some(apart::by_place(items, is_cluster)),
            _ => Some(Together(items)),
        })
    }
}

/// Behind what is there, which is nearly always nothing.
fn hand_over(verdicts: Verdicts, out: &mut Verdicts) {
    if out.is_empty() {
        *out = verdicts;
    } else {
        out.extend(verdicts);
    }
}
