//! From the states that a script found to the verdicts: the same requests, replayed by `core`.
//!
//! A script decides and stores. The rest of the verdict (remaining, retry_after, reset_after)
//! follows from the state it found, the time, and the request, so it is worked out here, by the
//! same code that every other store uses.

use smallvec::SmallVec;
use tidegate_core::{Accounts, Charge, Cost, Limit, State, Timestamp, Verdict, settle};
use tidegate_store::{StoreError, StoreErrorKind, Verdicts};

use crate::batch::{Answer, Ask, Item};
use crate::link::Reply;
use crate::parcel::Parcel;
use crate::state;

/// In place of a state: the value in Redis is not one of ours, as the script noticed when it read
/// it, or when it wrote.
const DAMAGED: i64 = 1;
const OCCUPIED: i64 = 3;

/// A call's answer, replayed request by request.
pub(crate) struct Replay<'a> {
    parcel: &'a Parcel,
    now: Timestamp,
    keys: Vec<Found>,
    /// Three numbers for every charge on a log: for keys that nothing connects, key by key; for the
    /// rest, in the order of their requests.
    told: &'a [Reply],
    /// Where the next numbers for connected keys are.
    next: usize,
}

/// What was found for a key.
struct Found {
    /// Its current state.
    state: State,
    damaged: bool,
    /// Whether the script reported anything about it.
    is_told: bool,
    /// Where the next numbers reported about it are, if nothing connects it.
    next: Option<usize>,
}

impl<'a> Replay<'a> {
    /// `None` if the answer does not have the shape it must have.
    pub(crate) fn new(parcel: &'a Parcel, reply: &'a Reply) -> Option<Self> {
        let Reply::Array(values) = reply else { return None };
        let (found, rest) = values.split_at_checked(parcel.keys())?;
        let (now, told) = rest.split_first()?;
        let now = Timestamp::from_micros(number(now)?);
        let mut next = 0;
        let keys = parcel.entries().zip(found).map(|(entry, found)| {
            let limit = parcel.limit_of(entry);
            let state = read(limit, found);
            let is_told = is_log(limit) && !matches!(found, Reply::Integer(DAMAGED));
            let here = next;
            next += if is_told && !entry.connected { 3 * entry.times as usize } else { 0 };
            Found {
                damaged: state.is_none(),
                state: state.unwrap_or_else(|| State::fresh(limit)),
                is_told,
                next: (!entry.connected).then_some(here),
            }
        });
        let keys = keys.collect();
        Some(Self { parcel, now, keys, told, next })
    }

    /// What one request is told.
    pub(crate) fn answer(&mut self, ask: &Ask) -> Answer {
        let mut verdicts = Verdicts::new();
        let passes = match ask {
            Ask::Settle(items) => {
                let charges: Charges<'_> = items.iter().map(Item::charge).collect();
                settle(&charges, &mut Sitting { replay: self, items }, &mut verdicts)
            }
            Ask::Look(items) => {
                let mut sitting = Sitting { replay: self, items };
                let look = |index: usize| sitting.probe(index, items[index].cost);
                verdicts.extend((0..items.len()).map(look));
                verdicts.iter().all(|verdict| verdict.allowed)
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
        let damaged = ask.items().iter().find(|item| self.found(item).damaged);
        match damaged {
            None => Ok((passes, verdicts)),
            Some(item) => Err(StoreError::new(
                StoreErrorKind::WrongType,
                format!("key {:?} holds a value that is none of ours", item.key),
            )
            // The script may have found out only after it had written the others.
            .with_outcome(ask.items().len() > 1)),
        }
    }

    fn found(&mut self, item: &Item) -> &mut Found {
        let position = self.parcel.position_of(item);
        &mut self.keys[position]
    }

    fn change<T>(
        &mut self,
        item: &Item,
        change: impl FnOnce(&mut State, &Limit, Timestamp) -> T,
    ) -> T {
        let now = self.now + item.phase;
        change(&mut self.found(item).state, &item.rule.limit, now)
    }

    /// The log, as the script reports it for this charge.
    fn told_log(&mut self, item: &Item, cost: Cost) -> Option<State> {
        if !is_log(&item.rule.limit) {
            return None;
        }
        let (told, shared) = (self.told, self.next);
        let found = self.found(item);
        if !found.is_told {
            return None;
        }
        let at = found.next.unwrap_or(shared);
        match &mut found.next {
            Some(next) => *next += 3,
            None => self.next += 3,
        }
        let [count, newest, makes_room] = told.get(at..at + 3)? else { return None };
        let instants = [number(newest)?, number(makes_room)?].map(Timestamp::from_micros);
        state::told_log(&item.rule.limit, cost, number(count)?, instants)
    }
}

pub(crate) type Charges<'a> = SmallVec<[Charge<'a>; 1]>;

/// The charges of one request, with their states.
struct Sitting<'r, 'a> {
    replay: &'r mut Replay<'a>,
    items: &'r [Item],
}

impl Accounts for Sitting<'_, '_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let item = &self.items[index];
        let log = self.replay.told_log(item, cost);
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

/// Whether it is a log, unless its limit is zero: then the script has nothing to report.
fn is_log(limit: &Limit) -> bool {
    matches!(limit, Limit::SlidingLog(_)) && limit.capacity() > 0
}

fn read(limit: &Limit, found: &Reply) -> Option<State> {
    match found {
        Reply::Integer(DAMAGED | OCCUPIED) => None,
        Reply::Integer(number) if *number > OCCUPIED => state::counted(limit, *number as u64),
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
