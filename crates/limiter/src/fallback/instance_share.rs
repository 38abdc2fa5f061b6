//! An instance's part of a limit, for decisions without the store.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Fingerprint, Limit, Quota};

/// How many instances share the limits and, if known, the number of this one.
///
/// The parts of instances that know their number add up to the limit. An instance that does not know its
/// number rounds its part up: together the parts can exceed the limit by up to one unit per instance,
/// less one.
#[derive(Debug)]
pub(crate) struct InstanceShare {
    /// The number of instances in the upper half; this one's number plus one in the lower half, where
    /// zero means unknown.
    packed: AtomicU64,
}

/// This instance's part of one caller's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitShare {
    nodes: u64,
    /// This instance's rank for the units that remain after an even division, less than `nodes`: rank
    /// zero is served first.
    rank: u64,
}

impl InstanceShare {
    /// The share of an instance that does not know its number.
    pub(crate) fn new(nodes: u32) -> Self {
        Self { packed: AtomicU64::new(pack(nodes, 0)) }
    }

    /// From now on this is instance `number` of `nodes`, counted from zero.
    #[cfg(feature = "files")]
    pub(crate) fn set(&self, nodes: u32, number: u32) {
        self.packed.store(pack(nodes, number.saturating_add(1)), Ordering::Relaxed);
    }

    pub(crate) fn nodes(&self) -> u64 {
        self.packed.load(Ordering::Relaxed) >> 32
    }

    /// The part for one caller. Which instance gets the units that remain after an even division differs
    /// between callers, so that every instance gets some. It is the same for all limits of one caller,
    /// because a request needs room in all of them.
    pub(super) fn of(&self, subject: Fingerprint) -> LimitShare {
        let packed = self.packed.load(Ordering::Relaxed);
        let (nodes, number) = (packed >> 32, packed & u64::from(u32::MAX));
        let rotated = |number: u64| (number % nodes + subject.high() % nodes) % nodes;
        LimitShare { nodes, rank: number.checked_sub(1).map_or(0, rotated) }
    }
}

fn pack(nodes: u32, one_more_than_number: u32) -> u64 {
    u64::from(nodes.max(1)) << 32 | u64::from(one_more_than_number)
}

impl LimitShare {
    /// This instance's part of so many units.
    pub(super) const fn of(self, units: u64) -> u64 {
        (units + self.nodes - 1 - self.rank) / self.nodes
    }

    /// This instance's part of the used units, so that the unused ones are shared like the whole.
    pub(super) fn of_used(self, used: u64, capacity: u64) -> u64 {
        self.of(capacity) - self.of(capacity - used.min(capacity))
    }

    /// The same limit with this instance's part of its units; a zero limit if the part is empty.
    pub(super) fn of_limit(self, limit: &Limit) -> Limit {
        let quota = limit.quota();
        let units = self.of(quota.limit());
        let burst = quota.burst_size().map(|burst| self.of(burst));
        let units = if burst == Some(0) { 0 } else { units };
        let part = Quota::new(units, quota.window()).ok().and_then(|part| match burst {
            Some(burst) if units > 0 => part.with_burst(burst).ok(),
            _ => Some(part),
        });
        // Rounded parts of a rate and a burst can take too long to refill: drop the burst then.
        let plain = || Quota::new(units, quota.window()).ok();
        let part = part.and_then(|part| limit.with_quota(&part).ok());
        let part = part.or_else(|| plain().and_then(|part| limit.with_quota(&part).ok()));
        part.unwrap_or(*limit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::AlgorithmKind;

    use super::*;

    fn parts(nodes: u32, subject: Fingerprint) -> Vec<LimitShare> {
        let part = |number| {
            let share = InstanceShare::new(1);
            share.set(nodes, number);
            share.of(subject)
        };
        (0..nodes).map(part).collect()
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_limit(
            units in 0..1_000_000_000_000_000_u64,
            small in 0..40_u64,
            used in 0..40_u64,
            nodes in 1..60_u32,
            subject in any::<u64>(),
        ) {
            let parts = parts(nodes, Fingerprint::new(subject, subject));
            for units in [units, small] {
                prop_assert_eq!(parts.iter().map(|part| part.of(units)).sum::<u64>(), units);
                let (least, most) = (units / u64::from(nodes), units.div_ceil(nodes.into()));
                prop_assert!(parts.iter().all(|part| (least..=most).contains(&part.of(units))));
            }
            let left = parts.iter().map(|part| part.of(small) - part.of_used(used, small));
            prop_assert_eq!(left.sum::<u64>(), small.saturating_sub(used));
        }

        #[test]
        fn parts_of_limits_never_add_up_to_more(
            kind in prop::sample::select(AlgorithmKind::ALL),
            limit in 1..30_u64,
            burst in 1..30_u64,
            nodes in 1..20_u32,
        ) {
            let mut quota: Quota = format!("{limit}/minute").parse().unwrap();
            if kind == AlgorithmKind::TokenBucket {
                quota = quota.with_burst(burst).unwrap();
            }
            let whole = Limit::new(kind, &quota).unwrap();
            let parts = parts(nodes, Fingerprint::new(7, 7));
            let parts: Vec<Limit> = parts.iter().map(|part| part.of_limit(&whole)).collect();
            let rates: u64 = parts.iter().map(|part| part.quota().limit()).sum();
            let capacities: u64 = parts.iter().map(Limit::capacity).sum();
            prop_assert!(rates <= limit && capacities <= whole.capacity());
            if kind != AlgorithmKind::TokenBucket {
                prop_assert_eq!(rates, limit);
            }
        }
    }

    #[test]
    fn an_instance_without_a_number_rounds_its_share_up() {
        let part = InstanceShare::new(3).of(Fingerprint::new(5, 5));
        assert_eq!([0, 1, 3, 4].map(|units| part.of(units)), [0, 1, 1, 2]);
        // Zero instances count as one.
        assert_eq!(InstanceShare::new(0).of(Fingerprint::new(5, 5)).of(9), 9);
    }
}
