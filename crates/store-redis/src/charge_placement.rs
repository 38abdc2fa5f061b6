//! Decides requests whose charges are stored in different places: in several slots of a Cluster, or
//! only some of them under keys shared with another limiter.

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

/// Whether some charges are shared with another limiter and others are not.
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
    /// Decides one place after the other. If one denies, the costs taken from the places before it are
    /// refunded in the background, and the places after it report what they would have decided.
    ///
    /// Between charge and refund, other callers see too little left: at most one request's cost for
    /// each such request under way. No caller ever sees too much.
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
            let requests = if passes {
                vec![(places, RedisRequest::Settle(items))]
            } else {
                requests_after_denial(places, items)
            };
            for (places, request) in requests {
                let charges = request.items().to_vec();
                let left = patience.saturating_sub(began.elapsed());
                let (group_passes, verdicts) = match self.ask(request, left).await {
                    Ok(answer) => answer,
                    Err(error) if passes => return Err(error),
                    // The request is denied, whatever this place would have decided.
                    Err(_) => (false, charges.iter().map(presumed_verdict).collect()),
                };
                for (place, verdict) in places.iter().zip(&verdicts) {
                    out[first + place] = *verdict;
                }
                if passes && group_passes {
                    paid.add(&places, charges, &verdicts);
                }
                passes &= group_passes;
            }
        }
        if passes {
            paid.items.clear();
        }
        for item in &paid.items {
            // The verdict reports what is left after the refund.
            let verdict = &mut out[first + item.place];
            let units = verdict.remaining.saturating_add(item.item.cost.get());
            verdict.remaining = units.min(verdict.limit);
        }
        Ok(passes)
    }

    /// Refunds in the background, so that a caller that stops waiting does not cancel the refund. A
    /// refund that fails errs on the strict side.
    fn refund_later(&self, paid: Vec<RefundableCharge>) {
        let enqueue = |RefundableCharge { beside, item, .. }| {
            self.enqueue_unawaited(RedisRequest::Refund(Box::new(item)), beside)
        };
        let replies: Vec<PendingReply> = paid.into_iter().filter_map(enqueue).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        let deadline = self.deadline();
        runtime.spawn(async move {
            for reply in replies {
                let _ = timeout(deadline, reply).await;
            }
        });
    }
}

/// The charges that a request has paid so far. They are refunded on drop unless all charges passed.
struct RefundGuard<'a> {
    store: &'a RedisStore,
    items: Vec<RefundableCharge>,
}

/// A charge that was paid, and how to refund it.
struct RefundableCharge {
    /// The first counter that was charged together with it, which determines the queue.
    beside: Fingerprint,
    /// Its position among the request's charges.
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

/// Also refunds when the caller stops waiting for the decision.
impl Drop for RefundGuard<'_> {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.store.refund_later(std::mem::take(&mut self.items));
        }
    }
}

/// The requests for places that come after a denial: limits that count denied requests do so, and
/// others only report what they would have decided.
fn requests_after_denial(
    places: Vec<usize>,
    items: RedisCharges,
) -> Vec<(Vec<usize>, RedisRequest)> {
    let (counting, peeking): (Vec<_>, Vec<_>) =
        places.into_iter().zip(items).partition(|(_, item)| item.rule.limit.counts_denied());
    let request = |charges: Vec<(usize, RedisCharge)>, make: fn(RedisCharges) -> RedisRequest| {
        let (places, items): (Vec<_>, RedisCharges) = charges.into_iter().unzip();
        (!items.is_empty()).then(|| (places, make(items)))
    };
    request(counting, RedisRequest::Settle)
        .into_iter()
        .chain(request(peeking, RedisRequest::Peek))
        .collect()
}

/// The verdict for a place that did not answer in time after another place denied.
fn presumed_verdict(item: &RedisCharge) -> Verdict {
    item.rule.limit.probe_fresh(item.cost, Timestamp::ZERO)
}

/// A placeholder until the verdict arrives.
const UNKNOWN: Verdict =
    Verdict { allowed: false, limit: 0, remaining: 0, retry_after: None, reset_after: Span::ZERO };
