//! Decides a request by the states of its keys.

use tidegate_core::{ChargeAccounts, Cost, CounterState, Timestamp, Verdict, settle};
use tidegate_store::{StoreError, StoreErrorKind, Verdicts};

use super::key::ComputedKey;
use crate::batch::{RedisAnswer, RedisCharge, RedisRequest};
use crate::script_replay::ScriptCharges;

/// Decides one request, and changes the states of its keys.
pub(super) fn decide(
    request: &RedisRequest,
    keys: &mut [ComputedKey<'_>],
    now: Timestamp,
) -> RedisAnswer {
    if let RedisRequest::Reset(item) = request {
        let key = &mut keys[item.key_index];
        (key.after, key.is_reset) = (Some(CounterState::fresh(&key.limit)), true);
        return Ok((true, Verdicts::new()));
    }
    let items = request.items();
    if items.iter().any(|item| keys[item.key_index].after.is_none()) {
        return Err(damaged(items));
    }
    let mut verdicts = Verdicts::new();
    let mut accounts = ComputedAccounts { items, keys, now };
    let passes = match request {
        RedisRequest::Settle(items) => {
            let charges: ScriptCharges<'_> = items.iter().map(RedisCharge::charge).collect();
            settle(&charges, &mut accounts, &mut verdicts)
        }
        RedisRequest::Peek(items) => {
            verdicts.extend((0..items.len()).map(|index| accounts.probe(index, items[index].cost)));
            verdicts.iter().all(|verdict| verdict.allowed)
        }
        RedisRequest::Refund(_) | RedisRequest::Reset(_) => {
            accounts.change(0, |state, RedisCharge { rule, cost, .. }, at| {
                // A key never seen stays so: there is nothing to give back.
                if *state != CounterState::fresh(&rule.limit) {
                    state.refund(&rule.limit, *cost, at);
                }
            });
            true
        }
    };
    Ok((passes, verdicts))
}

/// The charges of one request, with the states of all keys.
struct ComputedAccounts<'r, 'k> {
    items: &'r [RedisCharge],
    keys: &'r mut [ComputedKey<'k>],
    now: Timestamp,
}

impl ComputedAccounts<'_, '_> {
    fn change<T>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut CounterState, &RedisCharge, Timestamp) -> T,
    ) -> T {
        let item = &self.items[index];
        let state = &mut self.keys[item.key_index].after;
        let state = state.get_or_insert_with(|| CounterState::fresh(&item.rule.limit));
        change(state, item, self.now + item.phase)
    }
}

impl ChargeAccounts for ComputedAccounts<'_, '_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        self.change(index, |state, item, at| state.probe(&item.rule.limit, cost, at))
    }

    fn commit(&mut self, index: usize) -> Verdict {
        self.change(index, |state, item, at| state.commit(&item.rule.limit, item.cost, at))
    }

    fn deny(&mut self, index: usize) {
        self.change(index, |state, item, at| state.deny(&item.rule.limit, item.cost, at));
    }
}

pub(super) fn damaged(items: &[RedisCharge]) -> StoreError {
    let keys: Vec<_> = items.iter().map(|item| format!("{:?}", item.key)).collect();
    StoreError::new(
        StoreErrorKind::WrongType,
        format!("key {} holds a value that Tidegate did not write", keys.join(" or ")),
    )
    .with_outcome(false)
}
