//! What a failed store means.

mod instance_share;
mod last_known_usage;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use tidegate_core::{Charge, Cost, Fingerprint, Rule, Span, Timestamp, Verdict};
use tidegate_store::{Clock, LocalStore, MemoryStore, SystemClock, Verdicts};

use self::instance_share::InstanceShare;
use self::last_known_usage::{CounterUsage, LastKnownUsage};

/// Stands in for a store that does not answer.
///
/// It has two counters for each of the store's. One counts what was admitted here, and starts afresh for
/// no answer of the store: however often the store comes and goes, no more than this instance's share
/// is admitted here. The other goes on from what the store said last. A request needs room in both.
///
/// So in a window the instances admit at most what the algorithm admits of the whole limit, by the
/// store, and what it admits of their shares, by themselves. The store never hears of the latter.
#[derive(Debug)]
pub(crate) struct FallbackStore<C = SystemClock> {
    share: InstanceShare,
    clock: C,
    /// Made when the store fails for the first time.
    stand_in: OnceLock<MemoryStore<C>>,
    seen: LastKnownUsage,
}

/// When to try again, where nobody can say.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(1);

impl FallbackStore {
    pub(crate) fn new(nodes: u32) -> Self {
        Self::with_clock(nodes, SystemClock::new())
    }
}

impl<C: Clock + Clone> FallbackStore<C> {
    fn with_clock(nodes: u32, clock: C) -> Self {
        let share = InstanceShare::new(nodes);
        Self { share, clock, stand_in: OnceLock::new(), seen: LastKnownUsage::default() }
    }

    /// How many instances share the limits.
    pub(crate) fn nodes(&self) -> u64 {
        self.share.nodes()
    }

    /// From now on this is instance `number` of `nodes`, counted from zero.
    pub(crate) fn set_share(&self, nodes: u32, number: u32) {
        self.share.set(nodes, number);
    }

    /// Takes note of what the store said `now`, in case that it is the last for a while.
    pub(crate) fn record_verdicts(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        now: Timestamp,
    ) {
        for (charge, verdict) in charges.iter().zip(verdicts) {
            self.seen.record(CounterUsage {
                counter: charge.counter(),
                used: verdict.limit.saturating_sub(verdict.remaining),
                full_at: now + verdict.reset_after,
                is_followed: false,
            });
        }
    }

    /// Decides here: an embedded store with this instance's share. `now` is by the clock of
    /// [`saw`](Self::saw).
    pub(crate) fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        out: &mut Verdicts,
    ) -> bool {
        let stand_in = self.stand_in.get_or_init(|| {
            MemoryStore::builder().max_keys(2 * KEYS).clock(self.clock.clone()).build()
        });
        let rules: Vec<_> = charges.iter().map(|charge| self.rules(charge)).collect();
        let own = charges.iter().zip(&rules).map(|(charge, [own, _])| to_rule(charge, own));
        let going_on = charges.iter().zip(&rules).map(|(charge, [_, on])| to_rule(charge, on));
        let both: Vec<Charge<'_>> = own.chain(going_on).collect();
        let (_, going_on) = both.split_at(charges.len());
        for (charge, counter) in charges.iter().zip(going_on) {
            self.continue_from_store(stand_in, charge, counter, now);
        }
        let mut verdicts = Verdicts::new();
        let passes = stand_in.settle_now(&both, &mut verdicts);
        let (own, going_on) = verdicts.split_at(charges.len());
        let each = charges.iter().zip(own).zip(going_on);
        out.extend(each.map(|((charge, own), on)| with_finite_wait(charge, stricter(own, on))));
        passes
    }

    pub(crate) fn refund(&self, charge: &Charge<'_>) {
        if let Some(stand_in) = self.stand_in.get() {
            for rule in &self.rules(charge) {
                stand_in.refund_now(&to_rule(charge, rule));
            }
        }
    }

    pub(crate) fn reset(&self, charge: &Charge<'_>) {
        self.seen.forget(charge.counter());
        if let Some(stand_in) = self.stand_in.get() {
            for rule in &self.rules(charge) {
                stand_in.reset_now(&to_rule(charge, rule));
            }
        }
    }

    /// Lets the counter that goes on from what the store said begin there, once for each answer, with
    /// this instance's part; and without it when nothing of it matters any more.
    fn continue_from_store(
        &self,
        stand_in: &MemoryStore<C>,
        charge: &Charge<'_>,
        counter: &Charge<'_>,
        now: Timestamp,
    ) {
        self.seen.update_known(charge.counter(), |seen| {
            let used = seen.used_at(now, &charge.rule().limit);
            if used > 0 && seen.is_followed {
                return;
            }
            stand_in.reset_now(counter);
            *seen = if used > 0 {
                CounterUsage { is_followed: true, ..*seen }
            } else {
                CounterUsage::NONE
            };
            let part = self.share.of(charge.subject());
            let used = part.of_used(used, charge.rule().limit.capacity());
            take_up_to(used, stand_in, counter);
        });
    }

    /// The charge's rule with this instance's part of the limit, for each of the two counters.
    fn rules(&self, charge: &Charge<'_>) -> [Rule; 2] {
        let rule = charge.rule();
        let limit = self.share.of(charge.subject()).of_limit(&rule.limit);
        let own = Rule { limit, ..*rule };
        [own, Rule { id: own.id ^ GOING_ON, ..own }]
    }
}

fn to_rule<'r>(charge: &Charge<'_>, rule: &'r Rule) -> Charge<'r> {
    Charge::new(charge.subject(), charge.cost(), rule).of_policy(charge.policy())
}

/// Takes what is missing until so much is used: another request may have come in between, and all of it
/// would not fit then.
fn take_up_to<C: Clock>(used: u64, stand_in: &MemoryStore<C>, charge: &Charge<'_>) {
    let mut verdicts = Verdicts::new();
    stand_in.settle_now(&[charge.with_cost(Cost::PEEK)], &mut verdicts);
    let capacity = charge.rule().limit.capacity();
    let remaining = verdicts.first().map_or(capacity, |verdict| verdict.remaining);
    let missing = used.min(capacity).saturating_sub(capacity.saturating_sub(remaining));
    if let Some(cost) = Cost::new(missing).ok().filter(|cost| !cost.is_peek()) {
        stand_in.settle_now(&[charge.with_cost(cost)], &mut verdicts);
    }
}

/// What a limit with two counters says.
fn stricter(one: &Verdict, other: &Verdict) -> Verdict {
    Verdict {
        allowed: one.allowed && other.allowed,
        limit: one.limit,
        remaining: one.remaining.min(other.remaining),
        retry_after: one.retry_after.max(other.retry_after),
        reset_after: one.reset_after.max(other.reset_after),
    }
}

/// More than this instance's share is not more than the limit: the store may be back.
fn with_finite_wait(charge: &Charge<'_>, verdict: Verdict) -> Verdict {
    let fits = charge.cost().get() <= charge.rule().limit.capacity();
    let is_without_end = fits && !verdict.allowed && verdict.retry_after.is_none();
    let retry_after = if is_without_end { Some(RETRY_AFTER) } else { verdict.retry_after };
    Verdict { retry_after, ..verdict }
}

/// Tells the counters that go on from what the store said. Only the lower half of a fingerprint: the
/// upper one says when a key's windows begin.
const GOING_ON: Fingerprint = Fingerprint::new(0, 0x5851_f42d_4c95_7f2d);

/// For how many keys there is room; each has two counters.
const KEYS: usize = 1_000_000;
