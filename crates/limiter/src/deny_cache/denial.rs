//! A denial that is remembered, and what it says later, and to other costs.

use smallvec::SmallVec;
use tidegate_core::algorithm::{Algorithm, TokenBucket};
use tidegate_core::{Charge, Cost, Limit, Span, Timestamp, Verdict};
use tidegate_store::Verdicts;

use super::Moment;

#[derive(Debug)]
pub(super) struct Denial {
    asked: Moment,
    pub(super) until: Timestamp,
    /// The charge that denies for longest, and its limit.
    longest: usize,
    limit: Limit,
    costs: SmallVec<[Cost; 2]>,
    verdicts: Verdicts,
}

impl Denial {
    /// Of what the store said; `None` where nothing of it is known to last.
    pub(super) fn new(
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        asked: Moment,
        at_most: Span,
    ) -> Option<Self> {
        let denying = charges
            .iter()
            .zip(verdicts)
            .enumerate()
            .filter(|(_, (charge, verdict))| !verdict.allowed && charge.rule().enforced);
        let (wait, longest, limit) = denying
            .filter_map(|(at, (charge, verdict))| {
                Some((verdict.retry_after?, at, charge.rule().limit))
            })
            .max_by_key(|(wait, ..)| *wait)?;
        Some(Self {
            asked,
            until: asked.at + wait.min(at_most),
            longest,
            limit,
            costs: charges.iter().map(Charge::cost).collect(),
            verdicts: verdicts.clone(),
        })
    }

    /// When it was taken down.
    pub(super) const fn at(&self) -> Timestamp {
        self.asked.at
    }

    /// What the store would say to these charges now; `None` where it has to be asked.
    pub(super) fn repeated(&self, charges: &[Charge<'_>], now: Moment) -> Option<Verdicts> {
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
                let later = after(*verdict, elapsed);
                if charge.cost() == *cost { Some(later) } else { at_another_cost(charge, later) }
            })
            .collect()
    }
}

fn after(verdict: Verdict, elapsed: Span) -> Verdict {
    Verdict {
        retry_after: verdict.retry_after.map(|wait| wait.minus(elapsed)),
        reset_after: verdict.reset_after.minus(elapsed),
        ..verdict
    }
}

/// What a limit would say to another cost, where what it said tells that: a window is over when it is
/// over, and a bucket says how much it owes (to a microsecond, and never too little).
fn at_another_cost(charge: &Charge<'_>, said: Verdict) -> Option<Verdict> {
    let (cost, now) = (charge.cost(), Timestamp::from_secs(1));
    match charge.rule().limit {
        Limit::FixedWindow(_) => {
            let allowed = cost.get() <= said.remaining;
            let retry_after = (!allowed).then_some(said.reset_after);
            Some(Verdict { allowed, retry_after, ..said })
        }
        Limit::TokenBucket(bucket) => {
            let debt = TokenBucket::state(now + said.reset_after, 0, bucket.quota().limit());
            Some(bucket.probe(&debt, cost, now))
        }
        _ => None,
    }
}

/// Whether only the store can say how long another cost has to wait.
pub(super) const fn depends_on_cost(limit: &Limit) -> bool {
    !matches!(limit, Limit::FixedWindow(_) | Limit::TokenBucket(_))
}
