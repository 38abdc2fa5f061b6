//! Leases: units that this instance takes from the store in advance and spends without asking it.

mod lease;
mod request;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_core::{Charge, Fingerprint, Timestamp, Verdict};

use self::lease::Lease;
pub(crate) use self::request::LeaseRequest;
use crate::deny_cache::counts_denied;
use crate::fingerprint_map::FingerprintMap;

/// The leases of this instance.
///
/// The second request of a key takes units in advance for the requests after it. The store counts them
/// when they are taken, so all instances together take no more than the limit. Units that are spent later
/// than they were taken can exceed the limit in the later window. A lease on a fixed window ends with the
/// window, so nothing is exceeded there. For other algorithms the excess is at most what all instances
/// hold, which is the share that the policy allows.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    shards: Vec<Mutex<FingerprintMap<Lease>>>,
    /// The id of the next lease, so that an answer for an old lease never reaches its successor.
    next: AtomicU64,
}

/// How much can be taken in advance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseBounds {
    /// How far all instances together may overshoot, in thousandths of a limit.
    pub(crate) max_over_permille: u16,
    /// How many instances there are.
    pub(crate) nodes: u64,
}

const SHARDS: usize = 16;
const LEASES_PER_SHARD: usize = 8_192;
/// How many leases are examined to find an idle one when a shard is full.
const EVICTION_SCAN: usize = 64;
/// The smallest limit that is leased, per instance.
const LEAST_PER_NODE: u64 = tidegate_policy::Precision::MIN_LEASED;

impl LeaseTable {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, next: AtomicU64::new(0) }
    }

    /// Pays a charge from a lease, if enough is left.
    pub(crate) fn spend(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Verdict> {
        let mut shard = self.shard(charge.counter()).lock();
        let lease = shard.get_mut(&charge.counter()).filter(|lease| lease.is_of(charge))?;
        let enough = !charge.cost().is_peek() && lease.left_at(now) >= charge.cost().get();
        enough.then(|| lease.spend(charge.cost().get(), now))
    }

    /// The unspent units of a charge's lease.
    pub(crate) fn units_left(&self, charge: &Charge<'_>, now: Timestamp) -> u64 {
        let shard = self.shard(charge.counter()).lock();
        let lease = shard.get(&charge.counter()).filter(|lease| lease.is_of(charge));
        lease.map_or(0, |lease| lease.left_at(now))
    }

    /// The request to the store if it differs from the plain cost: less, because part of the cost is left
    /// in the lease, or more, for the requests to come. `None` for the first request of a key.
    pub(crate) fn request_lease(
        &self,
        charge: &Charge<'_>,
        bounds: LeaseBounds,
        now: Timestamp,
    ) -> Option<LeaseRequest<'_>> {
        let most = bounds.most(charge)?;
        let mut shard = self.shard(charge.counter()).lock();
        let lease = shard.get_mut(&charge.counter())?;
        if !lease.is_of(charge) || !lease.is_known_at(now) {
            return None;
        }
        let cost = charge.cost().get();
        let held = lease.left_at(now);
        // `None` if another request filled the lease meanwhile.
        let needed = cost.checked_sub(held).filter(|needed| *needed > 0)?;
        let ahead = lease.growth(now).map(|fair| (fair / bounds.nodes.max(1)).min(most));
        let ahead = ahead.filter(|ahead| *ahead > needed);
        if held == 0 && ahead.is_none() {
            return None;
        }
        let held = (held, lease.until());
        lease.lend(ahead.is_some());
        Some(LeaseRequest {
            leases: self,
            counter: charge.counter(),
            id: lease.id(),
            held,
            needed,
            ahead,
            grows: ahead.is_some(),
            asked_at: now,
            is_answered: false,
        })
    }

    /// Records the store's verdict on a charge that it allowed. `asked_at` is the time before the store was
    /// asked, so that nothing lasts longer here than in the store.
    pub(crate) fn record_verdict(
        &self,
        charge: &Charge<'_>,
        bounds: LeaseBounds,
        verdict: &Verdict,
        asked_at: Timestamp,
    ) {
        if bounds.most(charge).is_none() {
            return;
        }
        let mut shard = self.shard(charge.counter()).lock();
        match shard.get_mut(&charge.counter()) {
            Some(lease) if lease.is_of(charge) && lease.is_known_at(asked_at) => {
                lease.record_verdict(verdict, asked_at);
            }
            known => {
                if known.is_none() && shard.len() >= LEASES_PER_SHARD {
                    let idle =
                        shard.iter().take(EVICTION_SCAN).find(|(_, lease)| lease.is_idle(asked_at));
                    let Some(idle) = idle.map(|(counter, _)| *counter) else { return };
                    shard.remove(&idle);
                }
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                let lease = Lease::new(id, charge.rule().limit, verdict, asked_at);
                shard.insert(charge.counter(), lease);
            }
        }
    }

    /// Drops the lease of a counter that was reset.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        self.shard(charge.counter()).lock().remove(&charge.counter());
    }

    fn shard(&self, counter: Fingerprint) -> &Mutex<FingerprintMap<Lease>> {
        &self.shards[counter.low() as usize % SHARDS]
    }
}

impl LeaseBounds {
    /// The most that one instance can hold of a limit; `None` if a lease is not worthwhile.
    fn most(self, charge: &Charge<'_>) -> Option<u64> {
        let rule = charge.rule();
        let limit = rule.limit.quota().limit().min(rule.limit.capacity());
        let is_large = limit >= LEAST_PER_NODE.saturating_mul(self.nodes);
        if !is_large || !rule.enforced || charge.cost().is_peek() || counts_denied(charge) {
            return None;
        }
        let over = u128::from(limit) * u128::from(self.max_over_permille) / 1_000;
        let most = u64::try_from(over / u128::from(self.nodes.max(1))).ok()?;
        (most > 1).then_some(most)
    }
}

#[cfg(test)]
mod tests;
