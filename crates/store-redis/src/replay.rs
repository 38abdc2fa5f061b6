//! From the states that a script found to the verdicts: the same requests once more, by `core`.
//!
//! A script decides and stores. What to tell (remaining, retry_after, reset_after) follows from the
//! state it found, the time, and the request, so it is worked out here, by the code that every
//! other store uses.

use tidegate_core::{Accounts, Charge, Cost, Limit, State, Timestamp, Verdict, settle};
use tidegate_store::{StoreError, StoreErrorKind, Verdicts};

use crate::batch::{Answer, Ask, Batch, Item};
use crate::link::Reply;
use crate::state;

/// In place of a state: the value in Redis is none of ours.
const DAMAGED: i64 = 1;

/// A call's answer, replayed request by request.
pub(crate) struct Replay<'a> {
    batch: &'a Batch,
    now: Timestamp,
    /// Each key's; `None` where the value is damaged.
    states: Vec<Option<State>>,
    /// Three numbers for every charge on a log that is still to come.
    told: std::slice::Iter<'a, Reply>,
}

impl<'a> Replay<'a> {
    /// `None` when the answer has not the shape it must have.
    pub(crate) fn new(batch: &'a Batch, reply: &'a Reply) -> Option<Self> {
        let Reply::Array(values) = reply else { return None };
        let (found, rest) = values.split_at_checked(batch.width())?;
        let (now, told) = rest.split_first()?;
        let now = Timestamp::from_micros(number(now)?);
        let states = found.iter().enumerate();
        let states = states.map(|(place, found)| read(batch.limit_of(place), found)).collect();
        Some(Self { batch, now, states, told: told.iter() })
    }

    /// What one request is told.
    pub(crate) fn answer(&mut self, ask: &Ask) -> Answer {
        let items = ask.items();
        if items.iter().any(|item| self.states[self.batch.place_of(item)].is_none()) {
            return Err(StoreError::new(
                StoreErrorKind::WrongType,
                format!("key {:?} holds a value that is none of ours", items[0].key),
            ));
        }
        let mut verdicts = Verdicts::new();
        let passes = match ask {
            Ask::Settle(items) => {
                let charges: Charges<'_> = items.iter().map(Item::charge).collect();
                let mut accounts = Sitting { replay: self, items };
                settle(&charges, &mut accounts, &mut verdicts)
            }
            Ask::Refund(item) => {
                self.change(item, |state, limit, now| state.refund(limit, item.cost, now));
                true
            }
            Ask::Reset(item) => {
                self.change(item, |state, limit, _| *state = State::fresh(limit));
                true
            }
        };
        Ok((passes, verdicts))
    }

    fn change<T>(
        &mut self,
        item: &Item,
        change: impl FnOnce(&mut State, &Limit, Timestamp) -> T,
    ) -> T {
        let limit = &item.rule.limit;
        let state =
            self.states[self.batch.place_of(item)].get_or_insert_with(|| State::fresh(limit));
        change(state, limit, self.now + item.phase)
    }

    /// The log, as the script tells it to this charge.
    fn told_log(&mut self, item: &Item, cost: Cost) -> Option<State> {
        if !matches!(item.rule.limit, Limit::SlidingLog(_)) {
            return None;
        }
        let mut next = || self.told.next().and_then(number);
        let (count, newest, makes_room) = (next()?, next()?, next()?);
        let instants = [newest, makes_room].map(Timestamp::from_micros);
        state::told_log(&item.rule.limit, cost, count, instants)
    }
}

pub(crate) type Charges<'a> = smallvec::SmallVec<[Charge<'a>; 1]>;

/// The charges of one request at their states.
struct Sitting<'r, 'a> {
    replay: &'r mut Replay<'a>,
    items: &'r [Item],
}

impl Accounts for Sitting<'_, '_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let item = &self.items[index];
        let log = match item.rule.limit.capacity() {
            0 => None,
            _ => self.replay.told_log(item, cost),
        };
        self.replay.change(item, |state, limit, now| {
            if let Some(log) = log {
                *state = log;
            }
            state.probe(limit, cost, now)
        })
    }

    fn commit(&mut self, index: usize) -> Verdict {
        let item = &self.items[index];
        self.replay.change(item, |state, limit, now| state.commit(limit, item.cost, now))
    }

    fn deny(&mut self, index: usize) {
        let item = &self.items[index];
        self.replay.change(item, |state, limit, now| state.deny(limit, item.cost, now));
    }
}

fn read(limit: &Limit, found: &Reply) -> Option<State> {
    match found {
        Reply::Integer(DAMAGED) => None,
        Reply::Bytes(raw) if limit.capacity() > 0 => state::read(limit, raw),
        _ => Some(State::fresh(limit)),
    }
}

pub(crate) fn number(reply: &Reply) -> Option<u64> {
    match reply {
        Reply::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
