//! What a failed store means.

use std::sync::OnceLock;

use parking_lot::Mutex;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Quota, Rule, Span, Timestamp};
use tidegate_store::{LocalStore, MemoryStore, Verdicts};

/// Stands in for a store that does not answer.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    /// How many instances share the limits.
    nodes: u64,
    /// Made when the store fails for the first time.
    stand_in: OnceLock<MemoryStore>,
    /// How much of each key's limit was used when the store last said so.
    seen: [Mutex<Seen>; SHARDS],
}

/// The use of the keys that came last: each has one place, and whoever comes next at that place takes
/// it over. A key whose use is not known starts with a full share.
#[derive(Debug, Default)]
struct Seen {
    /// Made when the first one comes.
    places: Box<[Use]>,
}

/// What was used of a counter, and when nothing of it matters any more.
#[derive(Clone, Copy, Debug)]
struct Use {
    counter: Fingerprint,
    used: u64,
    full_at: Timestamp,
}

impl Use {
    const NONE: Self = Self { counter: Fingerprint::NONE, used: 0, full_at: Timestamp::ZERO };

    /// What is left of it by now. A bucket has filled up since, as fast as it does; of others it is
    /// known only when all of it is over.
    fn by(self, now: Timestamp, limit: &Limit) -> u64 {
        let left = self.full_at.since(now).as_micros();
        let Limit::TokenBucket(_) = limit else { return if left > 0 { self.used } else { 0 } };
        let (units, window) = (limit.quota().limit(), limit.quota().window().as_micros());
        let owed = u128::from(left) * u128::from(units);
        let owed = owed.div_ceil(u128::from(window.max(1)));
        self.used.min(u64::try_from(owed).unwrap_or(u64::MAX))
    }
}

/// So that workers seldom wait for one another: each decision of the store is noted.
const SHARDS: usize = 16;
/// Keys whose use may be known in each shard: a power of two.
const PLACES: usize = (1 << 17) / SHARDS;

impl Seen {
    fn place(&mut self, counter: Fingerprint) -> &mut Use {
        if self.places.is_empty() {
            self.places = vec![Use::NONE; PLACES].into();
        }
        &mut self.places[counter.high() as usize % PLACES]
    }

    fn note(&mut self, seen: Use) {
        *self.place(seen.counter) = seen;
    }

    fn take(&mut self, counter: Fingerprint) -> Option<Use> {
        let place = self.place(counter);
        (place.counter == counter).then(|| std::mem::replace(place, Use::NONE))
    }
}

/// When to try again, where nobody can say.
pub(crate) const RETRY_AFTER: Span = Span::from_secs(1);

impl Fallback {
    pub(crate) fn new(nodes: u32) -> Self {
        Self { nodes: u64::from(nodes.max(1)), ..Self::default() }
    }

    /// How many instances share the limits.
    pub(crate) const fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Takes note of what the store said `now`, in case that it is the last for a while.
    pub(crate) fn saw(&self, charges: &[Charge<'_>], verdicts: &Verdicts, now: Timestamp) {
        for (charge, verdict) in charges.iter().zip(verdicts) {
            let used = verdict.limit.saturating_sub(verdict.remaining);
            let full_at = now + verdict.reset_after;
            let counter = charge.counter();
            self.seen(counter).lock().note(Use { counter, used, full_at });
        }
    }

    fn seen(&self, counter: Fingerprint) -> &Mutex<Seen> {
        &self.seen[counter.low() as usize % SHARDS]
    }

    /// Decides here: an embedded store with this instance's share. `now` is by the clock of
    /// [`saw`](Self::saw).
    pub(crate) fn settle(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
        out: &mut Verdicts,
    ) -> bool {
        let stand_in = self.stand_in.get_or_init(MemoryStore::new);
        let rules: Vec<Rule> = charges.iter().map(|charge| self.share(charge.rule())).collect();
        let shares: Vec<Charge<'_>> = charges
            .iter()
            .zip(&rules)
            .map(|(charge, rule)| Charge::new(charge.subject(), charge.cost(), rule))
            .collect();
        for (charge, share) in charges.iter().zip(&shares) {
            self.seed(stand_in, charge, share, now);
        }
        let first = out.len();
        let passes = stand_in.settle_now(&shares, out);
        // More than this instance's share is not more than the limit: the store may be back.
        for (charge, verdict) in charges.iter().zip(out.iter_mut().skip(first)) {
            let fits = charge.cost().get() <= charge.rule().limit.capacity();
            if fits && !verdict.allowed && verdict.retry_after.is_none() {
                verdict.retry_after = Some(RETRY_AFTER);
            }
        }
        passes
    }

    pub(crate) fn refund(&self, charge: &Charge<'_>) {
        if let Some(stand_in) = self.stand_in.get() {
            let rule = self.share(charge.rule());
            stand_in.refund_now(&Charge::new(charge.subject(), charge.cost(), &rule));
        }
    }

    pub(crate) fn reset(&self, charge: &Charge<'_>) {
        self.seen(charge.counter()).lock().take(charge.counter());
        if let Some(stand_in) = self.stand_in.get() {
            stand_in.reset_now(charge);
        }
    }

    /// Takes what was used already and still matters, this instance's part of it, once.
    fn seed(
        &self,
        stand_in: &MemoryStore,
        charge: &Charge<'_>,
        share: &Charge<'_>,
        now: Timestamp,
    ) {
        let seen = self.seen(share.counter()).lock().take(share.counter());
        let Some(seen) = seen else { return };
        let used = seen.by(now, &charge.rule().limit);
        let used = used.div_ceil(self.nodes).min(share.rule().limit.capacity());
        if used == 0 {
            return;
        }
        if let Ok(cost) = Cost::new(used) {
            stand_in.settle_now(
                &[Charge::new(share.subject(), cost, share.rule())],
                &mut Verdicts::new(),
            );
        }
    }

    /// The same rule with this instance's part of the limit, rounded up: nobody is left without.
    fn share(&self, rule: &Rule) -> Rule {
        let quota = rule.limit.quota();
        let part = |units: u64| units.div_ceil(self.nodes);
        let share = Quota::new(part(quota.limit()), quota.window()).ok().and_then(|share| {
            let share = match quota.burst() {
                Some(burst) => share.with_burst(part(burst)).ok()?,
                None => share,
            };
            rule.limit.with_quota(&share).ok()
        });
        Rule { limit: share.unwrap_or(rule.limit), ..*rule }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::algorithm::{Algorithm, FixedWindow};
    use tidegate_core::{AlgorithmKind, Calendar, Verdict};

    /// Whether one unit passes, so long after the store said that a quota was used up.
    fn passes_after(kind: AlgorithmKind, millis: u64) -> bool {
        let mut quota: Quota = "4/2s".parse().unwrap();
        if kind == AlgorithmKind::TokenBucket {
            quota = quota.with_burst(4).unwrap();
        }
        let limit = Limit::new(kind, &quota).unwrap();
        let id = Fingerprint::new(1, 1);
        let rule = Rule { id, limit, enforced: true, staggered: false };
        let charges = [Charge::new(Fingerprint::new(2, 2), Cost::ONE, &rule)];
        let used_up = Verdict {
            allowed: true,
            limit: 4,
            remaining: 0,
            retry_after: None,
            reset_after: Span::from_secs(2),
        };
        let (fallback, then) = (Fallback::new(1), Timestamp::from_secs(1_000));
        fallback.saw(&charges, &Verdicts::from_iter([used_up]), then);
        let now = then + Span::from_millis(millis);
        fallback.settle(&charges, now, &mut Verdicts::new())
    }

    #[test]
    fn an_instances_share_keeps_the_calendar_and_how_denials_count() {
        let monthly = FixedWindow::by_calendar(100, Calendar::Month).unwrap().counting_denied();
        let id = Fingerprint::new(1, 1);
        let rule = Rule { id, limit: monthly.into(), enforced: true, staggered: false };
        let Limit::FixedWindow(share) = Fallback::new(3).share(&rule).limit else {
            panic!("a fixed window")
        };
        assert_eq!((share.capacity(), share.calendar()), (34, Some(Calendar::Month)));
        assert!(share.counts_denied());
    }

    #[test]
    fn what_was_used_counts_until_the_quota_is_full_again() {
        for kind in AlgorithmKind::ALL {
            assert!(!passes_after(*kind, 0), "{kind}");
            assert!(passes_after(*kind, 2_000), "{kind}");
            assert!(passes_after(*kind, 3_600_000), "{kind}");
        }
    }

    #[test]
    fn a_bucket_has_filled_up_meanwhile_and_others_have_not() {
        assert!(passes_after(AlgorithmKind::TokenBucket, 500));
        assert!(!passes_after(AlgorithmKind::TokenBucket, 499));
        assert!(!passes_after(AlgorithmKind::FixedWindow, 1_999));
        assert!(!passes_after(AlgorithmKind::SlidingLog, 1_999));
    }
}
