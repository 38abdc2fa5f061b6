//! Charges that are stored in different places: on a Cluster, or because only some are shared with
//! another limiter.

use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Span, Verdict, pays};
use tidegate_store::{StoreError, Verdicts};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::RedisStore;
use crate::batch::{Ask, Item, Items};
use crate::queue::Asked;

/// Where the charges of one request are stored.
pub(crate) enum Places {
    Together(Items),
    Apart(Groups),
}

/// Charges grouped by where they are stored, with their positions in the request.
pub(crate) type Groups = Vec<(Vec<usize>, Items)>;

/// Whether only some are shared with another limiter.
pub(crate) fn are_mixed(items: &Items) -> bool {
    let is_shared = |item: &Item| item.plain.is_some();
    items.iter().any(is_shared) && !items.iter().all(is_shared)
}

pub(crate) fn by_place(items: Items, on_a_cluster: bool) -> Places {
    let mut groups: Vec<((u16, bool), Vec<usize>, Items)> = Vec::new();
    for (number, item) in items.into_iter().enumerate() {
        let slot = if on_a_cluster { item.key.slot() } else { 0 };
        let place = (slot, item.plain.is_some());
        match groups.iter_mut().find(|(other, ..)| *other == place) {
            Some((_, numbers, items)) => {
                numbers.push(number);
                items.push(item);
            }
            None => groups.push((place, vec![number], vec![item])),
        }
    }
    let mut groups: Groups =
        groups.into_iter().map(|(_, numbers, items)| (numbers, items)).collect();
    match groups.pop() {
        Some((_, items)) if groups.is_empty() => Places::Together(items),
        last => {
            groups.extend(last);
            Places::Apart(groups)
        }
    }
}

impl RedisStore {
    /// One place after the other. If one denies, what was taken from the others is given back, and
    /// the caller does not wait for that.
    ///
    /// Between taking and giving back, others see too little left: at most one request's cost for
    /// each such request under way. Nobody ever sees too much.
    pub(crate) async fn settle_apart(
        &self,
        groups: Groups,
        out: &mut Verdicts,
        patience: Duration,
    ) -> Result<bool, StoreError> {
        let began = Instant::now();
        let first = out.len();
        let total: usize = groups.iter().map(|(_, items)| items.len()).sum();
        out.resize(first + total, UNKNOWN);
        let mut paid = Paid { store: self, items: Vec::new() };
        let mut passes = true;
        for (places, mut items) in groups {
            if !passes {
                items.iter_mut().for_each(only_look);
            }
            let asked = items.clone();
            let left = patience.saturating_sub(began.elapsed());
            let (group_passes, verdicts) = self.ask(Ask::Settle(items), left).await?;
            for (place, verdict) in places.iter().zip(&verdicts) {
                out[first + place] = *verdict;
            }
            if passes && group_passes {
                paid.add(asked, &verdicts);
            }
            passes &= group_passes;
        }
        if passes {
            paid.items.clear();
        }
        Ok(passes)
    }

    /// In the background: a refund that fails errs on the strict side, and nobody who leaves takes it
    /// along.
    fn give_back(&self, paid: Vec<(Fingerprint, Item)>) {
        let leave = |(beside, item)| self.leave(Ask::Refund(Box::new(item)), beside);
        let asked: Vec<Asked> = paid.into_iter().filter_map(leave).collect();
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
struct Paid<'a> {
    store: &'a RedisStore,
    /// Each with the first counter of those it was taken together with, which say where it waits in
    /// line.
    items: Vec<(Fingerprint, Item)>,
}

impl Paid<'_> {
    fn add(&mut self, items: Items, verdicts: &Verdicts) {
        let first = items.first().map_or(Fingerprint::NONE, |item| item.counter);
        let charges: SmallVec<[Charge<'_>; 4]> = items.iter().map(Item::charge).collect();
        let paid: SmallVec<[bool; 4]> =
            (0..charges.len()).map(|index| pays(&charges, verdicts, index)).collect();
        drop(charges);
        let paid = items.into_iter().zip(paid).filter(|(_, is_paid)| *is_paid);
        let goes_back = |item: &Item| !item.cost.is_peek() && !counts_denied(item);
        let paid = paid.map(|(item, _)| item).filter(goes_back);
        self.items.extend(paid.map(|item| (first, item)));
    }
}

/// Also when nobody waits for the decision any more.
impl Drop for Paid<'_> {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.store.give_back(std::mem::take(&mut self.items));
        }
    }
}

/// For a request that is denied already. A limit that counts such requests still does.
fn only_look(item: &mut Item) {
    if !counts_denied(item) {
        item.cost = Cost::PEEK;
    }
}

fn counts_denied(item: &Item) -> bool {
    matches!(item.rule.limit, Limit::FixedWindow(by) if by.counts_denied())
}

/// A placeholder until the verdict is there.
const UNKNOWN: Verdict =
    Verdict { allowed: false, limit: 0, remaining: 0, retry_after: None, reset_after: Span::ZERO };
