//! The local fallback: decides in this process while the store does not answer.

mod instance_share;
mod last_known_usage;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use tidegate_core::{Charge, Cost, Fingerprint, Rule, Span, Timestamp, Verdict};
use tidegate_store::{Clock, LocalStore, MemoryStore, SystemClock, Verdicts};

use self::instance_share::InstanceShare;
use self::last_known_usage::{CounterUsage, LastKnownUsage};

/// Replaces a store that does not answer.
///
/// It has two counters for each of the store's. The own counter counts what was admitted here, and no
/// answer of the store resets it: however often the store fails and recovers, at most this instance's
/// share is admitted here. The continued counter starts from the store's last answer. A request needs
/// room in both.
///
/// So in one window the store admits at most the whole limit, and all instances without the store at most
/// the sum of their shares, each as the algorithm counts. The store never learns of the latter.
#[derive(Debug)]
pub(crate) struct FallbackStore<C = SystemClock> {
    share: InstanceShare,
    clock: C,
    /// Created when the store fails for the first time.
    counters: OnceLock<MemoryStore<C>>,
    last_usage: LastKnownUsage,
}

/// When to try again if the wait is unknown.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(1);

impl FallbackStore {
    pub(crate) fn new(nodes: u32) -> Self {
        Self::with_clock(nodes, SystemClock::new())
    }
}

impl<C: Clock + Clone> FallbackStore<C> {
    fn with_clock(nodes: u32, clock: C) -> Self {
        let share = InstanceShare::new(nodes);
        Self { share, clock, counters: OnceLock::new(), last_usage: LastKnownUsage::default() }
    }

    /// How many instances share the limits.
    pub(crate) fn nodes(&self) -> u64 {
        self.share.nodes()
    }

    /// From now on this is instance `number` of `nodes`, counted from zero.
    #[cfg(feature = "files")]
    pub(crate) fn set_share(&self, nodes: u32, number: u32) {
        self.share.set(nodes, number);
    }

    /// Records the store's answer at `now`, in case it is the last one for a while.
    pub(crate) fn record_verdicts(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        now: Timestamp,
    ) {
        for (charge, verdict) in charges.iter().zip(verdicts) {
            self.last_usage.record(CounterUsage {
                counter: charge.counter(),
                used: verdict.limit.saturating_sub(verdict.remaining),
                full_at: now + verdict.reset_after,
                is_followed: false,
            });
        }
    }

    /// Settles charges in an embedded store with this instance's share. `now` is by the same clock as
    /// in [`record_verdicts`](Self::record_verdicts).
    pub(crate) fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        out: &mut Verdicts,
    ) -> bool {
        let counters = self.counters.get_or_init(|| {
            MemoryStore::builder().max_keys(2 * KEYS).clock(self.clock.clone()).build()
        });
        let rules: Vec<_> = charges.iter().map(|charge| self.rules(charge)).collect();
        let own = charges.iter().zip(&rules).map(|(charge, [own, _])| to_rule(charge, own));
        let continued =
            charges.iter().zip(&rules).map(|(charge, [_, continued])| to_rule(charge, continued));
        let both: Vec<Charge<'_>> = own.chain(continued).collect();
        let (_, continued) = both.split_at(charges.len());
        for (charge, counter) in charges.iter().zip(continued) {
            self.continue_from_store(counters, charge, counter, now);
        }
        let mut verdicts = Verdicts::new();
        let passes = counters.settle_now(&both, &mut verdicts);
        let (own, continued) = verdicts.split_at(charges.len());
        let each = charges.iter().zip(own).zip(continued);
        out.extend(
            each.map(|((charge, own), continued)| {
                with_finite_wait(charge, stricter(own, continued))
            }),
        );
        passes
    }

    pub(crate) fn refund(&self, charge: &Charge<'_>) {
        if let Some(counters) = self.counters.get() {
            for rule in &self.rules(charge) {
                counters.refund_now(&to_rule(charge, rule));
            }
        }
    }

    pub(crate) fn reset(&self, charge: &Charge<'_>) {
        self.last_usage.forget(charge.counter());
        if let Some(counters) = self.counters.get() {
            for rule in &self.rules(charge) {
                counters.reset_now(&to_rule(charge, rule));
            }
        }
    }

    /// Starts the continued counter from the store's last answer, once per answer, with this instance's
    /// part of what was used. Once that usage has expired, the counter starts empty.
    fn continue_from_store(
        &self,
        counters: &MemoryStore<C>,
        charge: &Charge<'_>,
        counter: &Charge<'_>,
        now: Timestamp,
    ) {
        self.last_usage.update_known(charge.counter(), |usage| {
            let used = usage.used_at(now, &charge.rule().limit);
            if used > 0 && usage.is_followed {
                return;
            }
            counters.reset_now(counter);
            *usage = if used > 0 {
                CounterUsage { is_followed: true, ..*usage }
            } else {
                CounterUsage::NONE
            };
            let part = self.share.of(charge.subject());
            let used = part.of_used(used, charge.rule().limit.capacity());
            take_up_to(used, counters, counter);
        });
    }

    /// The charge's rule with this instance's part of the limit, for each of the two counters.
    fn rules(&self, charge: &Charge<'_>) -> [Rule; 2] {
        let rule = charge.rule();
        let limit = self.share.of(charge.subject()).of_limit(&rule.limit);
        let own = Rule { limit, ..*rule };
        [own, Rule { id: own.id ^ CONTINUED, ..own }]
    }
}

fn to_rule<'r>(charge: &Charge<'_>, rule: &'r Rule) -> Charge<'r> {
    Charge::new(charge.subject(), charge.cost(), rule).of_policy(charge.policy())
}

/// Takes the units that are missing until `used` are taken. Another request may have taken some in
/// between, and then taking all of `used` would not fit.
fn take_up_to<C: Clock>(used: u64, counters: &MemoryStore<C>, charge: &Charge<'_>) {
    let mut verdicts = Verdicts::new();
    counters.settle_now(&[charge.with_cost(Cost::PEEK)], &mut verdicts);
    let capacity = charge.rule().limit.capacity();
    let remaining = verdicts.first().map_or(capacity, |verdict| verdict.remaining);
    let missing = used.min(capacity).saturating_sub(capacity.saturating_sub(remaining));
    if let Some(cost) = Cost::new(missing).ok().filter(|cost| !cost.is_peek()) {
        counters.settle_now(&[charge.with_cost(cost)], &mut verdicts);
    }
}

/// The verdict of a limit with two counters.
fn stricter(one: &Verdict, other: &Verdict) -> Verdict {
    Verdict {
        allowed: one.allowed && other.allowed,
        limit: one.limit,
        remaining: one.remaining.min(other.remaining),
        retry_after: one.retry_after.max(other.retry_after),
        reset_after: one.reset_after.max(other.reset_after),
    }
}

/// A cost above this instance's share can still pass once the store is back, so it has a finite wait.
fn with_finite_wait(charge: &Charge<'_>, verdict: Verdict) -> Verdict {
    let fits = charge.cost().get() <= charge.rule().limit.capacity();
    let has_no_wait = fits && !verdict.allowed && verdict.retry_after.is_none();
    let retry_after = if has_no_wait { Some(RETRY_AFTER) } else { verdict.retry_after };
    Verdict { retry_after, ..verdict }
}

/// Distinguishes the continued counters from the own ones. Changes only the lower half of a fingerprint:
/// the upper half determines when a key's windows begin.
const CONTINUED: Fingerprint = Fingerprint::new(0, 0x5851_f42d_4c95_7f2d);

/// The most keys; each has two counters.
const KEYS: usize = 1_000_000;
