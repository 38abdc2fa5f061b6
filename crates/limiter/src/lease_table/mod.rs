//! Quota that was taken ahead, to be spent here without asking.

mod lease;
mod request;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_core::{Charge, Fingerprint, Timestamp, Verdict};

use self::lease::Lease;
pub(crate) use self::request::LeaseRequest;
use crate::deny_cache::counts_denied;
use crate::fingerprint_map::FingerprintMap;

/// What this instance has taken of limits that may be leased, and not spent yet.
///
/// Whoever comes a second time takes some of what is left along for those who come after. It is
/// counted when it is taken, so all instances together take no more than the limit; what is spent
/// later than it was taken is what a window may see too much. A lease on a fixed window ends with
/// the window: there it is nothing. On others it is what all of them hold at most, which is the
/// share that the policy allows.
#[derive(Debug)]
pub(crate) struct LeaseTable {
    shards: Vec<Mutex<FingerprintMap<Lease>>>,
    /// So that no lease is taken for one that was here before.
    next: AtomicU64,
}

/// How much may be taken ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseBounds {
    /// How far all instances together may overshoot, in thousandths of a limit.
    pub(crate) max_over_permille: u16,
    /// How many instances there are.
    pub(crate) nodes: u64,
}

const SHARDS: usize = 16;
const LEASES_PER_SHARD: usize = 8_192;
/// How many are looked at for one that nobody needs, when there is no room.
const LOOKED_AT: usize = 64;
/// A limit has to be this large for each instance.
const LEAST_PER_NODE: u64 = tidegate_policy::Precision::MIN_LEASED;

impl LeaseTable {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, next: AtomicU64::new(0) }
    }

    /// Pays from what was taken, if there is enough of it.
    pub(crate) fn spend(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Verdict> {
        let mut shard = self.shard(charge.counter()).lock();
        let lease = shard.get_mut(&charge.counter()).filter(|lease| lease.is_of(charge))?;
        let enough = !charge.cost().is_peek() && lease.left_at(now) >= charge.cost().get();
        enough.then(|| lease.spend(charge.cost().get(), now))
    }

    /// What this instance has, besides what the store has.
    pub(crate) fn units_left(&self, charge: &Charge<'_>, now: Timestamp) -> u64 {
        let shard = self.shard(charge.counter()).lock();
        let lease = shard.get(&charge.counter()).filter(|lease| lease.is_of(charge));
        lease.map_or(0, |lease| lease.left_at(now))
    }

    /// How to ask the store, where that is not for just what a charge costs: what is left here need
    /// not be asked for, and others who come after may need some. `None` for whoever comes once.
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
        // Enough has come a moment ago.
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
            asked: now,
            is_answered: false,
        })
    }

    /// Takes note of what the store said to a charge that it allowed. `asked` is when: before it
    /// was, so that nothing lasts longer here than there.
    pub(crate) fn record_verdict(
        &self,
        charge: &Charge<'_>,
        bounds: LeaseBounds,
        verdict: &Verdict,
        asked: Timestamp,
    ) {
        if bounds.most(charge).is_none() {
            return;
        }
        let mut shard = self.shard(charge.counter()).lock();
        match shard.get_mut(&charge.counter()) {
            Some(lease) if lease.is_of(charge) && lease.is_known_at(asked) => {
                lease.record_verdict(verdict, asked);
            }
            known => {
                if known.is_none() && shard.len() >= LEASES_PER_SHARD {
                    let idle = shard.iter().take(LOOKED_AT).find(|(_, it)| it.is_idle(asked));
                    let Some(idle) = idle.map(|(counter, _)| *counter) else { return };
                    shard.remove(&idle);
                }
                let id = self.next.fetch_add(1, Ordering::Relaxed);
                let lease = Lease::new(id, charge.rule().limit, verdict, asked);
                shard.insert(charge.counter(), lease);
            }
        }
    }

    /// Somebody is to have a full quota again.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        self.shard(charge.counter()).lock().remove(&charge.counter());
    }

    fn shard(&self, counter: Fingerprint) -> &Mutex<FingerprintMap<Lease>> {
        &self.shards[counter.low() as usize % SHARDS]
    }
}

impl LeaseBounds {
    /// The most that one instance may hold of a limit; `None` where that is nothing worth having.
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
