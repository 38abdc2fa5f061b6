//! Computes verdicts from what a script found in another limiter's keys.

use tidegate_core::algorithm::{FixedWindow, SlidingWindow};
use tidegate_core::{ChargeAccounts, Cost, CounterState, Limit, Span, Timestamp, Verdict, settle};
use tidegate_store::Verdicts;

use super::first_of;
use crate::batch::{RedisAnswer, RedisCharge, RedisRequest};
use crate::link::RedisReply;
use crate::script_replay::{ScriptCharges, number};
use crate::stored_state;

/// The answer to a request; `None` if the reply does not have the expected shape.
pub(crate) fn answer(request: &RedisRequest, reply: &RedisReply) -> Option<RedisAnswer> {
    let RedisReply::Array(numbers) = reply else { return None };
    let numbers: Vec<u64> = numbers.iter().map(number).collect::<Option<_>>()?;
    let (now, reported) = numbers.split_first()?;
    let mut verdicts = Verdicts::new();
    let (RedisRequest::Settle(items) | RedisRequest::Peek(items)) = request else {
        return Some(Ok((true, verdicts)));
    };
    let reported: Vec<[u64; 3]> =
        reported.chunks_exact(3).filter_map(|three| three.try_into().ok()).collect();
    if reported.len() != items.len() {
        return None;
    }
    let states = vec![None; items.len()];
    let mut accounts =
        SharedKeyAccounts { items, now: Timestamp::from_micros(*now), reported, states };
    if let RedisRequest::Peek(_) = request {
        let peek = |index: usize| accounts.probe(index, items[index].cost);
        verdicts.extend((0..items.len()).map(peek));
        return Some(Ok((verdicts.iter().all(|verdict| verdict.allowed), verdicts)));
    }
    let charges: ScriptCharges<'_> = items.iter().map(RedisCharge::charge).collect();
    let passes = settle(&charges, &mut accounts, &mut verdicts);
    Some(Ok((passes, verdicts)))
}

/// The charges of one request, with their states.
struct SharedKeyAccounts<'a> {
    items: &'a [RedisCharge],
    now: Timestamp,
    /// Three numbers for each charge, as `plain_settle.lua` returns them.
    reported: Vec<[u64; 3]>,
    /// Each counter's state, at the position of its first charge, once it was read.
    states: Vec<Option<CounterState>>,
}

impl SharedKeyAccounts<'_> {
    fn read_state(&self, limit: &Limit, cost: Cost, [a, b, c]: [u64; 3]) -> CounterState {
        let window = limit.quota().window();
        let end = self.now.window_start(window) + window;
        match limit {
            Limit::FixedWindow(_) => CounterState::FixedWindow(FixedWindow::state(end, a)),
            Limit::SlidingWindow(_) => {
                CounterState::SlidingWindow(SlidingWindow::state(end + window, a, b))
            }
            _ => stored_state::log_from_report(limit, cost, a, [b, c].map(Timestamp::from_micros))
                .unwrap_or_else(|| CounterState::fresh(limit)),
        }
    }

    /// The time recorded for a cost that is taken now, once it is stored.
    fn as_stored(&self, limit: &Limit) -> Timestamp {
        match limit {
            Limit::SlidingLog(_) => self.now.window_start(Span::from_millis(1)),
            _ => self.now,
        }
    }
}

impl SharedKeyAccounts<'_> {
    /// The state of a charge's counter. What the script reports of a log depends on the cost.
    fn state(&mut self, index: usize, cost: Option<Cost>) -> &mut CounterState {
        let (item, place) = (&self.items[index], first_of(self.items, &self.items[index]));
        let limit = &item.rule.limit;
        let is_reported = matches!((limit, cost), (Limit::SlidingLog(_), Some(_)));
        if is_reported || self.states[place].is_none() {
            let found = self.read_state(limit, cost.unwrap_or(item.cost), self.reported[index]);
            self.states[place] = Some(found);
        }
        self.states[place].get_or_insert_with(|| CounterState::fresh(limit))
    }
}

impl ChargeAccounts for SharedKeyAccounts<'_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let (limit, now) = (self.items[index].rule.limit, self.now);
        self.state(index, Some(cost)).probe(&limit, cost, now)
    }

    fn commit(&mut self, index: usize) -> Verdict {
        let RedisCharge { rule, cost, .. } = &self.items[index];
        let (limit, cost, now, at) = (rule.limit, *cost, self.now, self.as_stored(&rule.limit));
        let state = self.state(index, None);
        let _ = state.commit(&limit, cost, at);
        state.probe(&limit, Cost::PEEK, now)
    }

    fn deny(&mut self, index: usize) {
        let RedisCharge { rule, cost, .. } = &self.items[index];
        let (limit, cost, now) = (rule.limit, *cost, self.now);
        self.state(index, None).deny(&limit, cost, now);
    }
}
