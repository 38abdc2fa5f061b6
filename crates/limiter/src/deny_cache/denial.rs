//! A denial that is remembered, and what it says later, and to other costs.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Algorithm, TokenBucket};
use tidegate_core::{Charge, Cost, Limit, Span, Timestamp, Verdict};
use tidegate_store::Verdicts;

use super::DenyCacheMoment;
use super::counter_watches::{CounterWatch, CounterWatches};

#[derive(Debug)]
pub(super) struct CachedDenial {
    asked: DenyCacheMoment,
    pub(super) until: Timestamp,
    /// The charge that denies for longest, and its limit.
    longest: usize,
    limit: Limit,
    costs: SmallVec<[Cost; 2]>,
    verdicts: Verdicts,
    /// The counters that deny for a while, during which another request may take something.
    watched: SmallVec<[CounterWatch; 1]>,
}

impl CachedDenial {
    /// Of what the store said; `None` where nothing of it is known to last, or where the wait may have
    /// grown while the answer was on its way: somebody has taken something meanwhile.
    pub(super) fn new(
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        asked: DenyCacheMoment,
        at_most: Span,
        leftovers: &CounterWatches,
    ) -> Option<Self> {
        let denying = charges
            .iter()
            .zip(verdicts)
            .enumerate()
            .filter(|(_, (charge, verdict))| !verdict.allowed && charge.rule().enforced);
        // One that waiting does not cure lasts longest.
        let wait = |verdict: &Verdict| verdict.retry_after.unwrap_or(Span::from_micros(u64::MAX));
        let (wait, longest, limit) = denying
            .map(|(at, (charge, verdict))| (wait(verdict), at, charge.rule().limit))
            .max_by_key(|(wait, ..)| *wait)?;
        let waits = charges.iter().zip(verdicts).filter(|(_, said)| said.retry_after.is_some());
        let mut counters = waits.map(|(charge, _)| charge.counter());
        let watched = counters.clone().filter_map(|it| leftovers.watch(it, asked.at)).collect();
        if counters.any(|counter| leftovers.was_taken_after(counter, asked.at)) {
            return None;
        }
        Some(Self {
            asked,
            until: asked.at + wait.min(at_most),
            longest,
            limit,
            costs: charges.iter().map(Charge::cost).collect(),
            verdicts: verdicts.clone(),
            watched,
        })
    }

    /// When it was taken down.
    pub(super) const fn at(&self) -> Timestamp {
        self.asked.at
    }

    /// Whether all it waits for is as it was.
    pub(super) fn is_untouched(&self, leftovers: &CounterWatches) -> bool {
        self.watched.iter().all(|watch| leftovers.is_untouched(*watch))
    }

    /// What the store would say to these charges now; `None` where it has to be asked.
    pub(super) fn verdicts_at(
        &self,
        charges: &[Charge<'_>],
        now: DenyCacheMoment,
    ) -> Option<Verdicts> {
        let (charge, cost) = (charges.get(self.longest)?, self.costs.get(self.longest)?);
        let holds = now.at < self.until
            && now.stamp == self.asked.stamp
            && charge.cost() >= *cost
            // The policy may be only watched by now: then it denies nobody.
            && charge.rule().enforced
            && charge.rule().limit == self.limit
            && self.verdicts.len() == charges.len();
        if !holds {
            return None;
        }
        let elapsed = now.at.since(self.asked.at);
        let remembered = self.verdicts.iter().zip(&self.costs);
        remembered
            .zip(charges)
            .map(|((verdict, cost), charge)| {
                let later = verdict_after(*verdict, elapsed);
                if charge.cost() == *cost {
                    Some(later)
                } else {
                    at_another_cost(charge, later, *cost)
                }
            })
            .collect()
    }
}

fn verdict_after(verdict: Verdict, elapsed: Span) -> Verdict {
    Verdict {
        retry_after: verdict.retry_after.map(|wait| wait.minus(elapsed)),
        reset_after: verdict.reset_after.minus(elapsed),
        ..verdict
    }
}

/// What a limit would say to another cost than `before`, where what it said tells that: a window is over
/// when it is over, and a bucket says how much it owes (to a microsecond, and never too little).
fn at_another_cost(charge: &Charge<'_>, said: Verdict, before: Cost) -> Option<Verdict> {
    let (cost, now) = (charge.cost(), Timestamp::from_secs(1));
    match charge.rule().limit {
        Limit::FixedWindow(_) => {
            let allowed = cost.get() <= said.remaining;
            let is_cured = !allowed && cost.get() <= said.limit;
            Some(Verdict { allowed, retry_after: is_cured.then_some(said.reset_after), ..said })
        }
        Limit::TokenBucket(bucket) => {
            let debt = TokenBucket::state(now + said.reset_after, 0, bucket.pace());
            // Another limit with the same counter may pay the debt back at another rate.
            let told = bucket.probe(&debt, before, now).retry_after?;
            let is_at_its_rate = told.minus(said.retry_after?) <= Span::from_micros(1)
                && said.retry_after?.minus(told) <= Span::from_micros(1);
            is_at_its_rate.then(|| bucket.probe(&debt, cost, now))
        }
        _ => None,
    }
}

/// Whether only the store can say how long another cost has to wait.
pub(super) const fn depends_on_cost(limit: &Limit) -> bool {
    !matches!(limit, Limit::FixedWindow(_) | Limit::TokenBucket(_))
}
