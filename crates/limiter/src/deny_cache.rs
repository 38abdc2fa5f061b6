//! Denials that need no store: exact, for as long as they last.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Span, Timestamp};
use tidegate_store::{Clock, SystemClock, Verdicts};

use crate::by_fingerprint::ByFingerprint;

/// Remembers who was denied, by which limit and until when.
///
/// Until then whatever costs as much would be denied too, whatever others do: a count does not
/// fall before its window is over, a bucket does not fill faster, a log's entries leave only by
/// age. So nobody is denied who would have passed, and whoever hammers never reaches the store.
///
/// Exceptions: a limit that has changed is another limit, and is compared; what is given back or
/// forgotten here forgets everything here; what other instances give back is seen after
/// [`LONGEST`]; limits that count denials are left out.
#[derive(Debug)]
pub(crate) struct DenyCache<C = SystemClock> {
    clock: C,
    generation: AtomicU64,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    denials: ByFingerprint<Denial>,
    /// When those that were over were last dropped.
    swept: Timestamp,
}

#[derive(Debug)]
struct Denial {
    generation: u64,
    /// The charge that denies for longest.
    index: usize,
    limit: Limit,
    cost: Cost,
    at: Timestamp,
    until: Timestamp,
    verdicts: Verdicts,
}

/// For how long a denial is believed at most: so long does it take to see what other instances
/// gave back.
const LONGEST: Span = Span::from_secs(1);

const SHARDS: usize = 16;
const DENIALS_PER_SHARD: usize = 8_192;
const SWEEP_EVERY: Span = Span::from_millis(100);

impl DenyCache {
    pub(crate) fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

impl<C: Clock> DenyCache<C> {
    pub(crate) fn with_clock(clock: C) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { clock, generation: AtomicU64::new(0), shards }
    }

    /// The time to tell [`remember`](Self::remember): from before the store was asked, so that a
    /// denial never lasts longer here than there.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The verdicts, if the request is known to be denied.
    pub(crate) fn recall(&self, charges: &[Charge<'_>], now: Timestamp) -> Option<Verdicts> {
        let name = name(charges)?;
        let shard = self.shard(name).lock();
        let denial = shard.denials.get(&name)?;
        let charge = charges.get(denial.index)?;
        let holds = now < denial.until
            && denial.generation == self.generation.load(Ordering::Acquire)
            && charge.cost() >= denial.cost
            && charge.rule().limit == denial.limit
            && denial.verdicts.len() == charges.len();
        holds.then(|| denial.verdicts_after(now.since(denial.at)))
    }

    /// Takes note of a denial by the store. `asked` is when.
    pub(crate) fn remember(&self, charges: &[Charge<'_>], verdicts: &Verdicts, asked: Timestamp) {
        if charges.iter().any(|charge| charge.cost().is_peek() || counts_denied(charge)) {
            return;
        }
        let denying = charges
            .iter()
            .zip(verdicts)
            .enumerate()
            .filter(|(_, (charge, verdict))| !verdict.allowed && charge.rule().enforced);
        let longest = denying
            .filter_map(|(index, (charge, verdict))| Some((verdict.retry_after?, index, charge)))
            .max_by_key(|(wait, ..)| *wait);
        let (Some((wait, index, charge)), Some(name)) = (longest, name(charges)) else { return };
        self.insert(
            name,
            Denial {
                generation: self.generation.load(Ordering::Acquire),
                index,
                limit: charge.rule().limit,
                cost: charge.cost(),
                at: asked,
                until: asked + wait.min(LONGEST),
                verdicts: verdicts.clone(),
            },
        );
    }

    /// Something was given back or forgotten.
    pub(crate) fn forget(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn insert(&self, name: Fingerprint, denial: Denial) {
        let mut shard = self.shard(name).lock();
        if !shard.is_full() || shard.denials.contains_key(&name) || shard.sweep(denial.at) {
            shard.denials.insert(name, denial);
        }
    }

    fn shard(&self, name: Fingerprint) -> &Mutex<Shard> {
        &self.shards[name.low() as usize % SHARDS]
    }
}

impl Shard {
    fn is_full(&self) -> bool {
        self.denials.len() >= DENIALS_PER_SHARD
    }

    /// Drops what is over, and says whether that made room. Seldom, since it looks at everything.
    fn sweep(&mut self, now: Timestamp) -> bool {
        if now.since(self.swept) < SWEEP_EVERY {
            return false;
        }
        self.swept = now;
        self.denials.retain(|_, denial| now < denial.until);
        !self.is_full()
    }
}

impl Denial {
    fn verdicts_after(&self, elapsed: Span) -> Verdicts {
        let mut verdicts = self.verdicts.clone();
        for verdict in &mut verdicts {
            verdict.retry_after = verdict.retry_after.map(|wait| wait.minus(elapsed));
            verdict.reset_after = verdict.reset_after.minus(elapsed);
        }
        verdicts
    }
}

/// One name for all counters of a request; `None` when there are none. A request with the same
/// counters in another order is another request.
fn name(charges: &[Charge<'_>]) -> Option<Fingerprint> {
    let (first, rest) = charges.split_first()?;
    Some(rest.iter().fold(first.counter(), |name, charge| {
        let high = name.high().rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fingerprint::new(high, name.low().rotate_left(11)) ^ charge.counter()
    }))
}

pub(crate) fn counts_denied(charge: &Charge<'_>) -> bool {
    matches!(charge.rule().limit, Limit::FixedWindow(by) if by.counts_denied())
}

#[cfg(test)]
#[path = "deny_cache_tests.rs"]
mod tests;
