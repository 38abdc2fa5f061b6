//! A cached denial, and its verdicts at a later time or for another cost.

use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Limit, Span, Timestamp, Verdict};
use tidegate_store::Verdicts;

use super::DenyCacheMoment;
use super::counter_watches::{CounterWatch, CounterWatches};

/// A denial by the store, with everything that is needed to repeat it.
#[derive(Debug)]
pub(super) struct CachedDenial {
    moment: DenyCacheMoment,
    pub(super) until: Timestamp,
    /// The index of the charge that denies for longest, and its limit.
    longest: usize,
    limit: Limit,
    costs: SmallVec<[Cost; 2]>,
    verdicts: Verdicts,
    /// The counters with a finite wait: it grows if another request takes units meanwhile.
    watched: SmallVec<[CounterWatch; 1]>,
}

impl CachedDenial {
    /// A denial by the store's verdicts. `None` if no enforced limit denies, or if another request took
    /// units while the answer was in flight, so that the wait may have grown.
    pub(super) fn new(
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        moment: DenyCacheMoment,
        at_most: Span,
        watches: &CounterWatches,
    ) -> Option<Self> {
        let denying = charges
            .iter()
            .zip(verdicts)
            .enumerate()
            .filter(|(_, (charge, verdict))| !verdict.allowed && charge.rule().enforced);
        // A denial without a wait is permanent, so it lasts longest.
        let wait = |verdict: &Verdict| verdict.retry_after.unwrap_or(Span::from_micros(u64::MAX));
        let (wait, longest, limit) = denying
            .map(|(at, (charge, verdict))| (wait(verdict), at, charge.rule().limit))
            .max_by_key(|(wait, ..)| *wait)?;
        let waits =
            charges.iter().zip(verdicts).filter(|(_, verdict)| verdict.retry_after.is_some());
        let mut counters = waits.map(|(charge, _)| charge.counter());
        let watched =
            counters.clone().filter_map(|counter| watches.watch(counter, moment.at)).collect();
        if counters.any(|counter| watches.was_taken_after(counter, moment.at)) {
            return None;
        }
        Some(Self {
            moment,
            until: moment.at + wait.min(at_most),
            longest,
            limit,
            costs: charges.iter().map(Charge::cost).collect(),
            verdicts: verdicts.clone(),
            watched,
        })
    }

    /// When the denied request arrived.
    pub(super) const fn at(&self) -> Timestamp {
        self.moment.at
    }

    /// Whether no units were taken from its counters since.
    pub(super) fn is_untouched(&self, watches: &CounterWatches) -> bool {
        self.watched.iter().all(|watch| watches.is_untouched(*watch))
    }

    /// The verdicts that the store would give these charges now. `None` if it has to be asked.
    pub(super) fn verdicts_at(
        &self,
        charges: &[Charge<'_>],
        now: DenyCacheMoment,
    ) -> Option<Verdicts> {
        let (charge, cost) = (charges.get(self.longest)?, self.costs.get(self.longest)?);
        let holds = now.at < self.until
            && now.stamp == self.moment.stamp
            && charge.cost() >= *cost
            // The policy may be a shadow by now, which denies nothing.
            && charge.rule().enforced
            && charge.rule().limit == self.limit
            && self.verdicts.len() == charges.len();
        if !holds {
            return None;
        }
        let elapsed = now.at.since(self.moment.at);
        let remembered = self.verdicts.iter().zip(&self.costs);
        remembered
            .zip(charges)
            .map(|((verdict, cost), charge)| {
                let later = verdict_after(*verdict, elapsed);
                if charge.cost() == *cost {
                    Some(later)
                } else {
                    charge.rule().limit.at_another_cost(later, *cost, charge.cost())
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
