//! How often new keys found no room, by policy: counters that never fall, whatever the plan is.

use std::collections::{HashMap, HashSet};

use tidegate::config::PlannedPolicy;
use tidegate::{Plan, Store};

/// What each policy's keys had part in.
///
/// A store counts by pools, which belong to rules, and a plan says which rules are whose. What a pool
/// has counted since it was last looked at goes to the policy that has it now, and stays there: a policy
/// that comes or goes takes nothing away from the others.
#[derive(Debug, Default)]
pub(crate) struct PolicyOverflows {
    /// Whether the store counts at all.
    is_counted: bool,
    /// What the store had counted in each pool when it was last looked at.
    seen: HashMap<u16, u64>,
    by_policy: HashMap<String, u64>,
    /// The sum of all that policies were ever given.
    given: u64,
    /// What came with requests, or is of policies that were gone.
    others: u64,
}

impl PolicyOverflows {
    /// Takes note of what the store has counted for the policies of this plan since the last look.
    pub(crate) fn update(&mut self, plan: &Plan, store: &impl Store) {
        // Two rules may have one pool: the first policy that has it gets what it counts.
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

    /// Another plan takes effect. What pools have counted before they were its own is not its own.
    pub(crate) fn change_plan(&mut self, old: &Plan, new: &Plan, store: &impl Store) {
        self.update(old, store);
        for (pool, count) in new.policies().iter().flat_map(|policy| counts(policy, store)) {
            self.seen.insert(pool, count);
        }
    }

    /// Of this policy, as of the last look; nothing if the store cannot tell.
    pub(crate) fn of(&self, policy: &str) -> Option<u64> {
        self.is_counted.then(|| self.by_policy.get(policy).copied().unwrap_or(0))
    }

    /// Of no policy, given how many there were in all.
    pub(crate) fn others(&mut self, all: u64) -> u64 {
        self.others = self.others.max(all.saturating_sub(self.given));
        self.others
    }
}

/// The pools of a policy, and what the store has counted in each, if it can tell.
fn counts<'a>(
    policy: &'a PlannedPolicy,
    store: &'a impl Store,
) -> impl Iterator<Item = (u16, u64)> + 'a {
    policy.all_rules().filter_map(|rule| Some((rule.id.pool(), store.overflowed_of(rule)?)))
}

/// Policies that are gone are forgotten when there are more: a plan has no more than that.
const MOST_POLICIES: usize = 50_000;
