//! Counters in Redis.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::Verdict;
use tidegate_core::{Charge, Cost, Fingerprint, Span, Timestamp};
use tidegate_store::{Store, StoreError, StoreErrorKind, Usage, Verdicts};
use tokio::time::timeout;

use crate::batch::{Answer, Ask, Item, Items};
use crate::courier::{Courier, Place};
use crate::deadline::Deadline;
use crate::key::KeyName;
use crate::link::Link;
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
    secret: [u8; 16],
    deadline: Arc<Deadline>,
}

impl RedisStore {
    /// Configures what is not in the URL.
    pub fn builder(config: RedisConfig) -> RedisStoreBuilder {
        RedisStoreBuilder::new(config)
    }

    pub(crate) fn new(builder: RedisStoreBuilder) -> Self {
        let lanes = builder.config.connections.max(1);
        let naming = Arc::new(Naming::new(&builder));
        let courier = Courier::new(&builder, naming.clone());
        let deadline = Deadline::new(builder.deadline);
        let queues = |ways: Vec<Vec<usize>>| {
            let most = builder.max_waiting / ways.len();
            let queue = |lanes| Queue::new(courier.clone(), lanes, most, deadline.clone());
            ways.into_iter().map(queue).collect()
        };
        let of_few = || (0..lanes).map(|lane| vec![lane; FLIGHTS_OF_FEW]).collect();
        // Where calls may have any company, there is one queue, and each of its connections has at
        // most one call under way.
        let of_many = || vec![(0..lanes).rev().collect()];
        Self {
            queues: queues(if courier.is_cluster() { of_few() } else { of_many() }),
            plain_queues: queues(of_few()),
            courier,
            naming,
            board: board::name(builder.prefix.as_bytes(), &builder.secret),
            secret: builder.secret,
            deadline,
        }
    }

    /// Whether Redis is currently being asked. While it does not answer it is not, and only a
    /// background probe checks whether it is back.
    pub fn is_available(&self) -> bool {
        !self.courier.is_any_open()
    }

    /// What an operator should know about how Redis is set up, such as that it may drop counters;
    /// or why that is unknown, such as that it cannot be reached.
    pub async fn doubts(&self) -> Vec<String> {
        self.courier.doubts().await
    }

    pub(crate) const fn board_name(&self) -> &KeyName {
        &self.board
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

    /// Asks within the deadline, whatever happens.
    fn ask(&self, ask: Ask) -> impl Future<Output = Answer> + Send {
        let place = self.courier.place(&ask);
        let counter = ask.items().first().map_or(Fingerprint::NONE, |item| item.counter);
        let queue = queue(if ask.is_plain() { &self.plain_queues } else { &self.queues }, counter);
        let is_open = self.courier.is_open(place.slot);
        self.answer(if is_open { Err(unasked()) } else { Ok(queue.ask(ask)) }, place, queue)
    }

    /// The same for a charge that another caller is already waiting for, in the same way.
    fn join(&self, charge: &Charge<'_>) -> Option<impl Future<Output = Answer> + Send> {
        if self.courier.is_cluster() || self.courier.is_open(0) || !self.naming.is_ours(charge) {
            return None;
        }
        let queue = queue(&self.queues, charge.counter());
        let asked = queue.join(charge)?;
        Some(self.answer(Ok(asked), Place { slot: 0, subject: charge.subject() }, queue))
    }

    fn answer(
        &self,
        asked: Result<Asked, StoreError>,
        place: Place,
        queue: &Queue<Arc<Courier>>,
    ) -> impl Future<Output = Answer> + Send {
        let asked = asked.map(|asked| timeout(self.deadline.get(), asked));
        async move { asked?.await.unwrap_or_else(|_| Err(self.timed_out(place, queue))) }
    }

    #[cold]
    fn timed_out(&self, place: Place, queue: &Queue<Arc<Courier>>) -> StoreError {
        // It left after it was requested, so it has been under way for less than that.
        let late = queue.overdue(self.deadline.get() / 2);
        self.courier.timed_out(place, &late);
        let message = format!("no answer within {:?}", self.deadline.get());
        StoreError::new(StoreErrorKind::Timeout, message)
    }

    /// Charges that are stored in different places, on a Cluster or because only some are shared
    /// with another limiter: one place after the other. If one denies, what was taken from the
    /// others is given back.
    ///
    /// Between taking and giving back, others see too little left: at most one request's cost for
    /// each such request under way. Nobody ever sees too much.
    async fn settle_apart(&self, groups: Groups, out: &mut Verdicts) -> Result<bool, StoreError> {
        let first = out.len();
        let total: usize = groups.iter().map(|(_, items)| items.len()).sum();
        out.resize(first + total, UNKNOWN);
        let mut paid: Vec<Item> = Vec::new();
        let mut passes = true;
        for (places, mut items) in groups {
            if !passes {
                items.iter_mut().for_each(|item| item.cost = Cost::PEEK);
            }
            let asked = items.clone();
            let (group_passes, verdicts) = match self.ask(Ask::Settle(items)).await {
                Ok(answer) => answer,
                Err(error) => {
                    self.give_back(paid).await;
                    return Err(error);
                }
            };
            for (place, verdict) in places.iter().zip(&verdicts) {
                out[first + place] = *verdict;
            }
            if passes && group_passes {
                let taken = asked.into_iter().zip(&verdicts);
                paid.extend(taken.filter(|(_, verdict)| verdict.allowed).map(|(item, _)| item));
            }
            passes &= group_passes;
        }
        if !passes {
            self.give_back(paid).await;
        }
        Ok(passes)
    }

    async fn give_back(&self, paid: Vec<Item>) {
        for item in paid.into_iter().filter(|item| !item.cost.is_peek()) {
            // A refund that fails errs on the strict side.
            let _ = self.ask(Ask::Refund(item)).await;
        }
    }
}

type Queues = Vec<Arc<Queue<Arc<Courier>>>>;

/// All requests for a key take the same route, so that they find company.
fn queue(queues: &Queues, counter: Fingerprint) -> &Arc<Queue<Arc<Courier>>> {
    &queues[counter.low() as usize % queues.len()]
}

#[cold]
fn unasked() -> StoreError {
    StoreError::new(
        StoreErrorKind::Unreachable,
        "it did not answer lately, so nobody asks until it does",
    )
}

/// A placeholder until the verdict is there.
const UNKNOWN: Verdict =
    Verdict { allowed: false, limit: 0, remaining: 0, retry_after: None, reset_after: Span::ZERO };

/// Calls under way on one connection if each carries little: on a Cluster one slot's keys, with a
/// key format one request.
const FLIGHTS_OF_FEW: usize = 256;

/// Charges grouped by where they are stored, with their positions in the request.
type Groups = Vec<(Vec<usize>, Items)>;

/// Whether only some are shared with another limiter.
fn are_mixed(items: &Items) -> bool {
    let is_shared = |item: &Item| item.plain.is_some();
    items.iter().any(is_shared) && !items.iter().all(is_shared)
}

fn by_place(items: Items, on_a_cluster: bool) -> Groups {
    let mut groups: Vec<((u16, bool), Vec<usize>, Items)> = Vec::new();
    for (number, item) in items.into_iter().enumerate() {
        let slot = if on_a_cluster { item.key.slot() } else { 0 };
        let place = (slot, item.plain.is_some());
        match groups.iter_mut().find(|(other, ..)| *other == place) {
            Some((_, numbers, items)) => {
                numbers.push(number);
                items.push(item);
            }
            None => groups.push((place, vec![number], SmallVec::from_iter([item]))),
        }
    }
    groups.into_iter().map(|(_, numbers, items)| (numbers, items)).collect()
}

impl Store for RedisStore {
    async fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> Result<bool, StoreError> {
        if let [charge] = charges
            && let Some(answer) = self.join(charge)
        {
            let (passes, verdicts) = answer.await?;
            out.extend(verdicts);
            return Ok(passes);
        }
        let items = self.naming.items(charges)?;
        if items.is_empty() {
            return Ok(true);
        }
        if items.len() > 1 && (self.courier.is_cluster() || are_mixed(&items)) {
            let mut groups = by_place(items, self.courier.is_cluster());
            if groups.len() > 1 {
                return Box::pin(self.settle_apart(groups, out)).await;
            }
            let items = groups.pop().map(|(_, items)| items).unwrap_or_default();
            return self.settle_together(items, out).await;
        }
        self.settle_together(items, out).await
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.ask(Ask::Refund(self.naming.item(charge)?)).await.map(|_| ())
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.ask(Ask::Reset(self.naming.item(charge)?)).await.map(|_| ())
    }

    fn shared_secret(&self) -> Option<[u8; 16]> {
        Some(self.secret)
    }

    fn set_deadline(&self, longest: Span) {
        self.deadline.set(longest.into());
    }

    fn is_available(&self) -> bool {
        Self::is_available(self)
    }

    async fn usage(&self) -> Result<Usage, StoreError> {
        self.courier.usage().await
    }
}

impl RedisStore {
    async fn settle_together(&self, items: Items, out: &mut Verdicts) -> Result<bool, StoreError> {
        let (passes, verdicts) = self.ask(Ask::Settle(items)).await?;
        out.extend(verdicts);
        Ok(passes)
    }
}
