//! The embedded store: counters in this process's memory.

mod bounds;
mod builder;
mod capacity;
mod debug;
mod ledger;
mod overflow;
mod settlement;
mod shard;
mod signpost;
mod table;
mod table_account;

pub use builder::MemoryStoreBuilder;

use std::future::{Future, Pending};

use crossbeam_utils::CachePadded;
use tidegate_core::{AlgorithmKind, Charge, Fingerprint, Rule, Span, Timestamp, Verdict};

use self::capacity::MemoryCapacity;
use self::overflow::OverflowCounters;
use self::shard::MemoryShard;
use self::signpost::Signpost;
use self::table::TableUpkeep;
use self::table_account::ChargeContext;
use crate::shared_settings::MemorySettings;
use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use crate::{
    Clock, LocalStore, Promise, SettingEntry, SettingsSnapshot, SettleResult, SharedSettings,
    Store, StoreError, StoreUsage, SystemClock, Verdicts,
};

/// Counters in this process: sharded, bounded and exact.
///
/// Keys are stored as fingerprints, so a key costs the same whatever its length, and a known key is
/// settled without an allocation. Nothing runs in the background: new keys sweep out dead ones as
/// they arrive.
///
/// It holds a bounded number of keys, by default as many as fit into half of the memory that this process
/// can use ([`MemoryStoreBuilder::max_memory`]). A limit can have four times as many keys as there are
/// free slots, and an eighth of all slots is reserved for limits with few keys, so a flood of one limit's
/// keys does not take the space of another's. No live key is evicted to make room, since that would let
/// anyone reset a limit by flooding the store. Instead, new keys that find no room share counters, a few
/// keys each, until dead keys are found: no caller gets more than the limit, and
/// [`MemoryStats::overflowed`] counts such charges. Refunds and resets do not change a shared counter.
///
/// Settling takes one lock for each shard that the request needs, for a fraction of a microsecond. No
/// operation fails or panics.
///
/// ```
/// use tidegate::{Limiter, MemoryStore};
///
/// // Two limiters that share one store, and so one bound on memory.
/// let store = std::sync::Arc::new(MemoryStore::builder().max_keys(10_000).build());
/// let logins = Limiter::builder().name("login").limit("5/minute").store(store.clone()).build()?;
/// let calls = Limiter::builder().name("calls").limit("100/minute").store(store.clone()).build()?;
/// assert!(logins.check_now("alice").is_allowed());
/// assert!(calls.check_now("alice").is_allowed());
/// assert_eq!(store.stats().keys, 2);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
pub struct MemoryStore<C = SystemClock> {
    clock: C,
    shards: Box<[CachePadded<Mutex<MemoryShard>>]>,
    /// One for each table of each shard, outside the shard's lock.
    signposts: Box<[CachePadded<[Signpost; AlgorithmKind::ALL.len()]>]>,
    overflow: OverflowCounters,
    capacity: MemoryCapacity,
    /// The next shard to look at when another one is full.
    hand: AtomicUsize,
    settings: Mutex<MemorySettings>,
}

/// What a store currently holds.
///
/// The numbers are read one after the other while other threads go on, so they may not fit together exactly.
/// Watch `overflowed`: if it grows, there are more callers than the store has room for, and some share
/// counters.
///
/// ```
/// use tidegate::Limiter;
///
/// let limiter = Limiter::builder().limit("5/minute").build()?;
/// let _ = limiter.check_now("alice");
/// let stats = limiter.stats();
/// assert_eq!((stats.keys, stats.overflowed), (1, 0));
/// assert!(stats.bytes <= stats.max_bytes);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Keys, including dead ones that have not been swept out yet and ones that are just being
    /// added.
    pub keys: usize,
    /// The most keys that it can hold.
    pub max_keys: usize,
    /// Charges of new keys that had to share a counter because there was no room for them.
    pub overflowed: u64,
    /// Counters that are shared, including dead ones that have not been swept out yet.
    pub shared: usize,
    /// Bytes held by sliding logs.
    pub log_bytes: usize,
    /// Bytes of all tables and logs.
    pub bytes: usize,
    /// The most that they can grow to, with the allocator's overhead.
    pub max_bytes: usize,
}

impl MemoryStore {
    /// A store with the system clock and bounds by the memory of this machine.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Chooses bounds and the clock.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    /// The store's clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }

    /// What the store currently holds.
    pub fn stats(&self) -> MemoryStats {
        let cells = self.overflow.capacity();
        MemoryStats {
            keys: self.capacity.keys(),
            max_keys: self.capacity.max_keys(),
            overflowed: self.overflow.total(),
            shared: cells.keys(),
            log_bytes: self.capacity.log_bytes() + cells.log_bytes(),
            bytes: self.capacity.bytes() + cells.bytes(),
            max_bytes: bounds::bytes_of(self.capacity.max_keys(), self.capacity.max_log_bytes()),
        }
    }

    /// How much longer a counter will be remembered; `None` if it is not known.
    ///
    /// It is the time until the counter cannot matter any more, not until it is removed: a dead key stays until
    /// a new one sweeps it out.
    ///
    /// ```
    /// use tidegate::{Charge, Cost, Fingerprint, LocalStore, ManualClock, MemoryStore, Rule, Span, Verdicts};
    ///
    /// let store = MemoryStore::builder().clock(ManualClock::default()).build();
    /// let limit = "1/minute burst 1".parse()?;
    /// let rule = Rule { id: Fingerprint::new(1, 1), limit, enforced: true, staggered: false };
    /// let charge = Charge::new(Fingerprint::new(2, 2), Cost::ONE, &rule);
    /// assert_eq!(store.time_to_live(&charge), None);
    /// store.settle_now(&[charge], &mut Verdicts::new());
    /// assert_eq!(store.time_to_live(&charge), Some(Span::from_secs(60)));
    /// # Ok::<(), tidegate::QuotaError>(())
    /// ```
    pub fn time_to_live(&self, charge: &Charge<'_>) -> Option<Span> {
        let (shard, context) = self.open(charge);
        let forget_at = shard.forget_at(context)?;
        Some(forget_at.since(context.now))
    }

    fn shard_index(&self, counter: Fingerprint) -> usize {
        // The number of shards is a power of two. The table inside uses the upper half.
        counter.low() as usize & (self.shards.len() - 1)
    }

    fn signpost(&self, charge: &Charge<'_>) -> &Signpost {
        let algorithm = charge.rule().limit.kind() as usize;
        &self.signposts[self.shard_index(charge.counter())][algorithm]
    }

    #[inline]
    fn shard(&self, charge: &Charge<'_>) -> &Mutex<MemoryShard> {
        &self.shards[self.shard_index(charge.counter())]
    }

    fn open<'a>(
        &'a self,
        charge: &'a Charge<'a>,
    ) -> (MutexGuard<'a, MemoryShard>, ChargeContext<'a>) {
        let mut shard = self.shard(charge).lock();
        let time = shard.time(self.clock.now(), &self.clock);
        (shard, self.context(charge, time))
    }

    fn context<'a>(&'a self, charge: &'a Charge<'a>, time: Timestamp) -> ChargeContext<'a> {
        let signpost = Some(self.signpost(charge));
        let upkeep = TableUpkeep { time, capacity: &self.capacity, signpost };
        ChargeContext { charge, key: key_of(charge), now: time + charge.phase(), upkeep }
    }
}

/// The key of a charge's counter: its fingerprint with the pool of its rule, so that a sweep knows which
/// pool gets the space back.
#[inline(always)]
fn key_of(charge: &Charge<'_>) -> Fingerprint {
    charge.counter().with_pool(charge.rule().id.pool())
}

impl<C: Clock> LocalStore for MemoryStore<C> {
    #[inline]
    fn settle_now(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool {
        let [charge] = charges else {
            return self.apply_together(charges, out);
        };
        self.apply_one(charge, out) || !charge.rule().enforced
    }

    fn refund_now(&self, charge: &Charge<'_>) {
        let (mut shard, context) = self.open(charge);
        shard.refund(context);
    }

    fn reset_now(&self, charge: &Charge<'_>) {
        let (mut shard, context) = self.open(charge);
        shard.reset(context);
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    #[inline]
    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        _: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        Promise::<_, Pending<_>>::Ready(Ok(self.settle_now(charges, out)))
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        self.apply_each(charges.into_iter(), report);
        true
    }

    async fn refund(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.refund_now(charge);
        Ok(())
    }

    async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        self.reset_now(charge);
        Ok(())
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        let stats = self.stats();
        Ok(StoreUsage {
            keys: u64::try_from(stats.keys).ok(),
            max_keys: u64::try_from(stats.max_keys).ok(),
            overflowed: Some(stats.overflowed),
            bytes: u64::try_from(stats.bytes).ok(),
            max_bytes: u64::try_from(stats.max_bytes).ok(),
            may_evict: None,
        })
    }

    fn overflowed_of(&self, rule: &Rule) -> Option<u64> {
        Some(self.overflow.count_of_rule(rule.id))
    }
}

impl<C: Clock> SharedSettings for MemoryStore<C> {
    async fn put_setting(&self, name: &str, text: &[u8], lasts: Span) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.settings.lock().put(name, text, now + lasts.min(SettingEntry::LONGEST), now)
    }

    async fn remove_setting(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.settings.lock().remove(name))
    }

    async fn read_settings(
        &self,
        known: Option<u64>,
    ) -> Result<Option<SettingsSnapshot>, StoreError> {
        Ok(self.settings.lock().read(known, self.clock.now()))
    }
}
