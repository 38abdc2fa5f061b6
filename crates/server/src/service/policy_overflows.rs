//! Counts, by policy, how often new keys had to share a counter. Counts survive a change of the plan.

use std::collections::{HashMap, HashSet};

use tidegate::config::PlannedPolicy;
use tidegate::{Plan, Store};

/// Overflow counts of each policy.
///
/// A store counts by pool, a pool belongs to a rule, and the plan assigns rules to policies. The
/// increase since the last update goes to the policy that owns the pool now, and stays there: adding or
/// removing a policy changes no other policy's count.
#[derive(Debug, Default)]
pub(crate) struct PolicyOverflows {
    /// Whether the store counts overflows at all.
    is_counted: bool,
    /// The store's count of each pool at the last update.
    seen: HashMap<u16, u64>,
    by_policy: HashMap<String, u64>,
    /// The sum of all counts ever added to policies, including removed ones.
    given: u64,
    /// Overflows of limits that came with requests, or of removed policies.
    others: u64,
}

impl PolicyOverflows {
    /// Adds what the store has counted for the policies of this plan since the last update.
    pub(crate) fn update(&mut self, plan: &Plan, store: &impl Store) {
        // Two rules can share a pool: its count goes to the first policy that has it.
        let mut known = HashSet::new();
        for policy in plan.policies() {
            let mut new = 0;
            for (pool, count) in counts(policy, store) {
                self.is_counted = true;
                if known.insert(pool) {
                    let before = self.seen.insert(pool, count).unwrap_or(0);
                    new += count.saturating_sub(before);
                }
            }
            if new > 0 {
                *self.by_policy.entry(policy.name().to_owned()).or_default() += new;
                self.given += new;
            }
        }
        if self.by_policy.len() > MOST_POLICIES {
            let present: HashSet<_> = plan.policies().iter().map(PlannedPolicy::name).collect();
            self.by_policy.retain(|name, _| present.contains(&**name));
        }
    }

    /// Prepares for another plan: counts from before a policy owned a pool are not added to it.
    pub(crate) fn change_plan(&mut self, old: &Plan, new: &Plan, store: &impl Store) {
        self.update(old, store);
        for (pool, count) in new.policies().iter().flat_map(|policy| counts(policy, store)) {
            self.seen.insert(pool, count);
        }
    }

    /// The count of a policy at the last update; `None` if the store does not count.
    pub(crate) fn of(&self, policy: &str) -> Option<u64> {
        self.is_counted.then(|| self.by_policy.get(policy).copied().unwrap_or(0))
    }

    /// The overflows that belong to no policy, given the store's total.
    pub(crate) fn others(&mut self, all: u64) -> u64 {
        self.others = self.others.max(all.saturating_sub(self.given));
        self.others
    }
}

/// The pools of a policy with the store's counts, as far as the store counts them.
fn counts<'a>(
    policy: &'a PlannedPolicy,
    store: &'a impl Store,
) -> impl Iterator<Item = (u16, u64)> + 'a {
    policy.all_rules().filter_map(|rule| Some((rule.id.pool(), store.overflowed_of(rule)?)))
}

/// Beyond this many, counts of removed policies are dropped: no plan has more policies.
const MOST_POLICIES: usize = 50_000;
