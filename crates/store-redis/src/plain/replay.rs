//! From what a script found in another limiter's keys to the verdicts.

use tidegate_core::algorithm::{FixedWindow, SlidingWindow};
use tidegate_core::{Accounts, Cost, Limit, Span, State, Timestamp, Verdict, settle};
use tidegate_store::Verdicts;

use super::first_of;
use crate::batch::{Answer, Ask, Item};
use crate::link::Reply;
use crate::replay::{Charges, number};
use crate::state;

/// What a request is told; `None` if the answer does not have the shape it must have.
pub(crate) fn answer(ask: &Ask, reply: &Reply) -> Option<Answer> {
    let Reply::Array(numbers) = reply else { return None };
    let numbers: Vec<u64> = numbers.iter().map(number).collect::<Option<_>>()?;
    let (now, told) = numbers.split_first()?;
    let mut verdicts = Verdicts::new();
    let (Ask::Settle(items) | Ask::Look(items)) = ask else { return Some(Ok((true, verdicts))) };
    let told: Vec<[u64; 3]> =
        told.chunks_exact(3).filter_map(|three| three.try_into().ok()).collect();
    if told.len() != items.len() {
        return None;
    }
    let states = vec![None; items.len()];
    let mut sitting = Sitting { items, now: Timestamp::from_micros(*now), told, states };
    if let Ask::Look(_) = ask {
        let look = |index: usize| sitting.probe(index, items[index].cost);
        verdicts.extend((0..items.len()).map(look));
        return Some(Ok((verdicts.iter().all(|verdict| verdict.allowed), verdicts)));
    }
    let charges: Charges<'_> = items.iter().map(Item::charge).collect();
    let passes = settle(&charges, &mut sitting, &mut verdicts);
    Some(Ok((passes, verdicts)))
}

/// The charges of one request, with their states.
struct Sitting<'a> {
    items: &'a [Item],
    now: Timestamp,
    /// Three numbers for each charge, as `plain_settle.lua` returns them.
    told: Vec<[u64; 3]>,
    /// At the position of the first charge to each counter, once it was looked at.
    states: Vec<Option<State>>,
}

impl Sitting<'_> {
    fn found(&self, limit: &Limit, cost: Cost, [a, b, c]: [u64; 3]) -> State {
        let window = limit.quota().window();
        let end = self.now.window_start(window) + window;
        match limit {
            Limit::FixedWindow(_) => State::FixedWindow(FixedWindow::state(end, a)),
            Limit::SlidingWindow(_) => {
                State::SlidingWindow(SlidingWindow::state(end + window, a, b))
            }
            _ => state::told_log(limit, cost, a, [b, c].map(Timestamp::from_micros))
                .unwrap_or_else(|| State::fresh(limit)),
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

impl Sitting<'_> {
    /// The state of a charge's counter. What is told of a log depends on the cost.
    fn state(&mut self, index: usize, cost: Option<Cost>) -> &mut State {
        let (item, place) = (&self.items[index], first_of(self.items, &self.items[index]));
        let limit = &item.rule.limit;
        let is_told = matches!((limit, cost), (Limit::SlidingLog(_), Some(_)));
        if is_told || self.states[place].is_none() {
            let found = self.found(limit, cost.unwrap_or(item.cost), self.told[index]);
            self.states[place] = Some(found);
        }
        self.states[place].get_or_insert_with(|| State::fresh(limit))
    }
}

impl Accounts for Sitting<'_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let (limit, now) = (self.items[index].rule.limit, self.now);
        self.state(index, Some(cost)).probe(&limit, cost, now)
    }

    fn commit(&mut self, index: usize) -> Verdict {
        let Item { rule, cost, .. } = &self.items[index];
        let (limit, cost, now, at) = (rule.limit, *cost, self.now, self.as_stored(&rule.limit));
        let state = self.state(index, None);
        let _ = state.commit(&limit, cost, at);
        state.probe(&limit, Cost::PEEK, now)
    }

    fn deny(&mut self, index: usize) {
        let Item { rule, cost, .. } = &self.items[index];
        let (limit, cost, now) = (rule.limit, *cost, self.now);
        self.state(index, None).deny(&limit, cost, now);
    }
}
