//! What a failed store means.

use std::sync::OnceLock;

use parking_lot::Mutex;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Quota, Rule, Span};
use tidegate_store::{LocalStore, MemoryStore, Verdicts};

/// Stands in for a store that does not answer.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    /// How many instances share the limits.
    nodes: u64,
    /// Made when the store fails for the first time.
    stand_in: OnceLock<MemoryStore>,
    /// How much of each key's limit was used when the store last said so.
    seen: Mutex<Seen>,
}

/// The use of the keys that came last: each has one place, and whoever comes next at that place takes
/// it over. A key whose use is not known starts with a full share.
#[derive(Debug, Default)]
struct Seen {
    /// Made when the first one comes.
    places: Box<[(Fingerprint, u64)]>,
}

/// Keys whose use may be known: a power of two.
const PLACES: usize = 1 << 17;

impl Seen {
    fn place(&mut self, counter: Fingerprint) -> &mut (Fingerprint, u64) {
        if self.places.is_empty() {
            self.places = vec![(Fingerprint::NONE, 0); PLACES].into();
        }
        &mut self.places[counter.high() as usize % PLACES]
    }

    fn note(&mut self, counter: Fingerprint, used: u64) {
        *self.place(counter) = (counter, used);
    }

    fn take(&mut self, counter: Fingerprint) -> Option<u64> {
        let place = self.place(counter);
        let is_known = place.0 == counter;
        is_known.then(|| std::mem::replace(place, (Fingerprint::NONE, 0)).1)
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

    /// Takes note of what the store said, in case that it is the last for a while.
    pub(crate) fn saw(&self, charges: &[Charge<'_>], verdicts: &Verdicts) {
        let mut seen = self.seen.lock();
        for (charge, verdict) in charges.iter().zip(verdicts) {
            let used = verdict.limit.saturating_sub(verdict.remaining);
            seen.note(charge.counter(), used);
        }
    }

    /// Decides here: an embedded store with this instance's share.
    pub(crate) fn settle(&self, charges: &[Charge<'_>], out: &mut Verdicts) -> bool {
        let stand_in = self.stand_in.get_or_init(MemoryStore::new);
        let rules: Vec<Rule> = charges.iter().map(|charge| self.share(charge.rule())).collect();
        let shares: Vec<Charge<'_>> = charges
            .iter()
            .zip(&rules)
            .map(|(charge, rule)| Charge::new(charge.subject(), charge.cost(), rule))
            .collect();
        shares.iter().for_each(|share| self.seed(stand_in, share));
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
        self.seen.lock().take(charge.counter());
        if let Some(stand_in) = self.stand_in.get() {
            stand_in.reset_now(charge);
        }
    }

    /// Takes what was used already, this instance's part of it, once.
    fn seed(&self, stand_in: &MemoryStore, share: &Charge<'_>) {
        let Some(used) = self.seen.lock().take(share.counter()) else { return };
        let used = used.div_ceil(self.nodes).min(share.rule().limit.capacity());
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
            Limit::new(rule.limit.kind(), &share).ok()
        });
        Rule { limit: share.unwrap_or(rule.limit), ..*rule }
    }
}
