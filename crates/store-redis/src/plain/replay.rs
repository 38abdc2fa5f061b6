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
    let Ask::Settle(items) = ask else { return Some(Ok((true, verdicts))) };
    let told: Vec<[u64; 3]> =
        told.chunks_exact(3).filter_map(|three| three.try_into().ok()).collect();
    if told.len() != items.len() {
        return None;
    }
    let states = items.iter().map(|item| State::fresh(&item.rule.limit)).collect();
    let mut sitting = Sitting { items, now: Timestamp::from_micros(*now), told, states };
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
    /// At the position of the first charge to each counter.
    states: Vec<State>,
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

impl Accounts for Sitting<'_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let (item, place) = (&self.items[index], first_of(self.items, &self.items[index]));
        self.states[place] = self.found(&item.rule.limit, cost, self.told[index]);
        self.states[place].probe(&item.rule.limit, cost, self.now)
    }

    fn commit(&mut self, index: usize) -> Verdict {
        let (item, place) = (&self.items[index], first_of(self.items, &self.items[index]));
        let (limit, at) = (&item.rule.limit, self.as_stored(&item.rule.limit));
        let _ = self.states[place].commit(limit, item.cost, at);
        self.states[place].probe(limit, Cost::PEEK, self.now)
    }

    fn deny(&mut self, index: usize) {
        let (item, place) = (&self.items[index], first_of(self.items, &self.items[index]));
        self.states[place].deny(&item.rule.limit, item.cost, self.now);
    }
}
