//! Charges that are stored in different places: on a Cluster, or because only some are shared with
//! another limiter.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Charge, Fingerprint, Span, Timestamp, Verdict, pays};
use tidegate_store::{StoreError, Verdicts};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::RedisStore;
use crate::batch::{RedisCharge, RedisCharges, RedisRequest};
use crate::queue::PendingReply;

/// Where the charges of one request are stored.
pub(crate) enum ChargePlacement {
    Together(RedisCharges),
    Apart(ChargeGroups),
}

/// Charges grouped by where they are stored, with their positions in the request.
pub(crate) type ChargeGroups = Vec<(Vec<usize>, RedisCharges)>;

/// Whether only some are shared with another limiter.
pub(crate) fn are_mixed(items: &RedisCharges) -> bool {
    let is_shared = |item: &RedisCharge| item.shared_key.is_some();
    items.iter().any(is_shared) && !items.iter().all(is_shared)
}

pub(crate) fn group_charges(items: RedisCharges, on_a_cluster: bool) -> ChargePlacement {
    let mut groups: Vec<((u16, bool), Vec<usize>, RedisCharges)> = Vec::new();
    for (number, item) in items.into_iter().enumerate() {
        let slot = if on_a_cluster { item.key.slot() } else { 0 };
        let place = (slot, item.shared_key.is_some());
        match groups.iter_mut().find(|(other, ..)| *other == place) {
            Some((_, numbers, items)) => {
                numbers.push(number);
                items.push(item);
            }
            None => groups.push((place, vec![number], vec![item])),
        }
    }
    let mut groups: ChargeGroups =
        groups.into_iter().map(|(_, numbers, items)| (numbers, items)).collect();
    match groups.pop() {
        Some((_, items)) if groups.is_empty() => ChargePlacement::Together(items),
        last => {
            groups.extend(last);
            ChargePlacement::Apart(groups)
        }
    }
}

impl RedisStore {
    /// One place after the other. If one denies, what was taken from the others is given back, and
    /// the caller does not wait for that; the rest are asked what they would have said.
    ///
    /// Between taking and giving back, others see too little left: at most one request's cost for
    /// each such request under way. Nobody ever sees too much.
    pub(crate) async fn ask_stepwise(
        &self,
        groups: ChargeGroups,
        out: &mut Verdicts,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        let began = Instant::now();
        let first = out.len();
        let total: usize = groups.iter().map(|(_, items)| items.len()).sum();
        out.resize(first + total, UNKNOWN);
        let mut paid = RefundGuard { store: self, items: Vec::new() };
        let mut passes = true;
        for (places, items) in groups {
            let asks = if passes {
                vec![(places, RedisRequest::Settle(items))]
            } else {
                requests_after_denial(places, items)
            };
            for (places, ask) in asks {
                let asked = ask.items().to_vec();
                let left = patience.saturating_sub(began.elapsed());
                let (group_passes, verdicts) = match self.ask(ask, left).await {
                    Ok(answer) => answer,
                    Err(error) if passes => return Err(error),
                    // It is denied, whatever this place would have said.
                    Err(_) => (false, asked.iter().map(presumed_verdict).collect()),
                };
                for (place, verdict) in places.iter().zip(&verdicts) {
                    out[first + place] = *verdict;
                }
                if passes && group_passes {
                    paid.add(&places, asked, &verdicts);
                }
                passes &= group_passes;
            }
        }
        if passes {
            paid.items.clear();
        }
        for item in &paid.items {
            // It is told what is left once it has been given back.
            let verdict = &mut out[first + item.place];
            let units = verdict.remaining.saturating_add(item.item.cost.get());
            verdict.remaining = units.min(verdict.limit);
        }
        Ok(passes)
    }

    /// In the background: a refund that fails errs on the strict side, and nobody who leaves takes it
    /// along.
    fn refund_later(&self, paid: Vec<RefundableCharge>) {
        let leave = |RefundableCharge { beside, item, .. }| {
            self.enqueue_unawaited(RedisRequest::Refund(Box::new(item)), beside)
        };
        let asked: Vec<PendingReply> = paid.into_iter().filter_map(leave).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        let deadline = self.deadline();
        runtime.spawn(async move {
            for asked in asked {
                let _ = timeout(deadline, asked).await;
            }
        });
    }
}

/// What a request has paid so far, which goes back unless all of it is paid.
struct RefundGuard<'a> {
    store: &'a RedisStore,
    items: Vec<RefundableCharge>,
}

struct RefundableCharge {
    /// The first counter of those it was taken together with, which says where it waits in line.
    beside: Fingerprint,
    /// Which of the request's charges it is.
    place: usize,
    item: RedisCharge,
}

impl RefundGuard<'_> {
    fn add(&mut self, places: &[usize], items: RedisCharges, verdicts: &Verdicts) {
        let beside = items.first().map_or(Fingerprint::NONE, |item| item.counter);
        let charges: SmallVec<[Charge<'_>; 4]> = items.iter().map(RedisCharge::charge).collect();
        let paid: SmallVec<[bool; 4]> =
            (0..charges.len()).map(|index| pays(&charges, verdicts, index)).collect();
        drop(charges);
        let goes_back =
            |item: &RedisCharge| !item.cost.is_peek() && !item.rule.limit.counts_denied();
        let paid = places.iter().zip(items).zip(paid).filter(|(_, is_paid)| *is_paid);
        let paid = paid.map(|(item, _)| item).filter(|(_, item)| goes_back(item));
        self.items.extend(paid.map(|(place, item)| RefundableCharge {
            beside,
            place: *place,
            item,
        }));
    }
}

/// Also when nobody waits for the decision any more.
impl Drop for RefundGuard<'_> {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.store.refund_later(std::mem::take(&mut self.items));
        }
    }
}

/// What is asked for a request that is denied already: limits that count such requests do, and others
/// only say what they would have said.
fn requests_after_denial(
    places: Vec<usize>,
    items: RedisCharges,
) -> Vec<(Vec<usize>, RedisRequest)> {
    let (counting, looking): (Vec<_>, Vec<_>) =
        places.into_iter().zip(items).partition(|(_, item)| item.rule.limit.counts_denied());
    let ask = |charges: Vec<(usize, RedisCharge)>, ask: fn(RedisCharges) -> RedisRequest| {
        let (places, items): (Vec<_>, RedisCharges) = charges.into_iter().unzip();
        (!items.is_empty()).then(|| (places, ask(items)))
    };
    ask(counting, RedisRequest::Settle)
        .into_iter()
        .chain(ask(looking, RedisRequest::Peek))
        .collect()
}

/// For a place that did not say in time what it would have said.
fn presumed_verdict(item: &RedisCharge) -> Verdict {
    item.rule.limit.probe_fresh(item.cost, Timestamp::ZERO)
}

/// A placeholder until the verdict is there.
const UNKNOWN: Verdict =
    Verdict { allowed: false, limit: 0, remaining: 0, retry_after: None, reset_after: Span::ZERO };
