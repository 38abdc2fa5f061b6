//! Computes verdicts from the states that a script found, by replaying the requests with `core`.
//!
//! A script decides and stores. The rest of the verdict (remaining, retry_after, reset_after)
//! follows from the state it found, the time, and the request, so it is worked out here, by the
//! same code that every other store uses.

use smallvec::SmallVec;
use tidegate_core::{
    Charge, ChargeAccounts, Cost, CounterState, Limit, Timestamp, Verdict, settle,
};
use tidegate_store::{StoreError, StoreErrorKind, Verdicts};

use crate::batch::{RedisAnswer, RedisCharge, RedisRequest};
use crate::batch_call::BatchCall;
use crate::link::RedisReply;
use crate::stored_state;

/// Codes in place of a state: the value in Redis is not one of ours, as the script noticed when it
/// read the key, or when it wrote it.
const DAMAGED: i64 = 1;
const OCCUPIED: i64 = 3;

/// A call's reply, replayed request by request.
pub(crate) struct ScriptReplay<'a> {
    call: &'a BatchCall,
    now: Timestamp,
    keys: Vec<BatchKeyState>,
    /// Three numbers for every charge on a log: for keys that are not connected, key by key; for the
    /// others, in the order of their requests.
    reported: &'a [RedisReply],
    /// The position of the next numbers for connected keys.
    next: usize,
}

/// The state that the script found for a key.
struct BatchKeyState {
    /// Starts as the state that was found, and changes with each replayed request.
    state: CounterState,
    damaged: bool,
    /// Whether the script reported anything about it.
    is_reported: bool,
    /// The position of the next numbers reported about it; `None` if it is connected.
    next: Option<usize>,
}

impl<'a> ScriptReplay<'a> {
    /// `None` if the reply does not have the expected shape.
    pub(crate) fn new(call: &'a BatchCall, reply: &'a RedisReply) -> Option<Self> {
        let RedisReply::Array(values) = reply else { return None };
        let (found, rest) = values.split_at_checked(call.keys())?;
        let (now, reported) = rest.split_first()?;
        let now = Timestamp::from_micros(number(now)?);
        let mut next = 0;
        let keys = call.entries().zip(found).map(|(entry, found)| {
            let limit = call.limit_of(entry);
            let state = read(limit, found);
            let is_reported = is_log(limit) && !matches!(found, RedisReply::Integer(DAMAGED));
            let here = next;
            next += if is_reported && !entry.connected { 3 * entry.repeats as usize } else { 0 };
            BatchKeyState {
                damaged: state.is_none(),
                state: state.unwrap_or_else(|| CounterState::fresh(limit)),
                is_reported,
                next: (!entry.connected).then_some(here),
            }
        });
        let keys = keys.collect();
        Some(Self { call, now, keys, reported, next })
    }

    /// The answer to one request.
    pub(crate) fn answer(&mut self, request: &RedisRequest) -> RedisAnswer {
        let mut verdicts = Verdicts::new();
        let passes = match request {
            RedisRequest::Settle(items) => {
                let charges: ScriptCharges<'_> = items.iter().map(RedisCharge::charge).collect();
                settle(&charges, &mut ScriptAccounts { replay: self, items }, &mut verdicts)
            }
            RedisRequest::Peek(items) => {
                let mut accounts = ScriptAccounts { replay: self, items };
                let peek = |index: usize| accounts.probe(index, items[index].cost);
                verdicts.extend((0..items.len()).map(peek));
                verdicts.iter().all(|verdict| verdict.allowed)
            }
            RedisRequest::Refund(item) => {
                self.change(item, |state, limit, now| state.refund(limit, item.cost, now));
                true
            }
            RedisRequest::Reset(item) => {
                self.change(item, |state, limit, _| *state = CounterState::fresh(limit));
                true
            }
        };
        let damaged = request.items().iter().find(|item| self.key_state(item).damaged);
        match damaged {
            None => Ok((passes, verdicts)),
            Some(item) => Err(StoreError::new(
                StoreErrorKind::WrongType,
                format!("key {:?} holds a value that Tidegate did not write", item.key),
            )
            // The script may have noticed only after it had written the other keys.
            .with_outcome(request.items().len() > 1)),
        }
    }

    fn key_state(&mut self, item: &RedisCharge) -> &mut BatchKeyState {
        let position = self.call.position_of(item);
        &mut self.keys[position]
    }

    fn change<T>(
        &mut self,
        item: &RedisCharge,
        change: impl FnOnce(&mut CounterState, &Limit, Timestamp) -> T,
    ) -> T {
        let now = self.now + item.phase;
        change(&mut self.key_state(item).state, &item.rule.limit, now)
    }

    /// The log, as the script reports it for this charge.
    fn reported_log(&mut self, item: &RedisCharge, cost: Cost) -> Option<CounterState> {
        if !is_log(&item.rule.limit) {
            return None;
        }
        let (reported, shared) = (self.reported, self.next);
        let found = self.key_state(item);
        if !found.is_reported {
            return None;
        }
        let at = found.next.unwrap_or(shared);
        match &mut found.next {
            Some(next) => *next += 3,
            None => self.next += 3,
        }
        let [count, newest, makes_room] = reported.get(at..at + 3)? else { return None };
        let instants = [number(newest)?, number(makes_room)?].map(Timestamp::from_micros);
        stored_state::log_from_report(&item.rule.limit, cost, number(count)?, instants)
    }
}

pub(crate) type ScriptCharges<'a> = SmallVec<[Charge<'a>; 1]>;

/// The charges of one request, with their states.
struct ScriptAccounts<'r, 'a> {
    replay: &'r mut ScriptReplay<'a>,
    items: &'r [RedisCharge],
}

impl ChargeAccounts for ScriptAccounts<'_, '_> {
    fn probe(&mut self, index: usize, cost: Cost) -> Verdict {
        let item = &self.items[index];
        let log = self.replay.reported_log(item, cost);
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

fn read(limit: &Limit, found: &RedisReply) -> Option<CounterState> {
    match found {
        RedisReply::Integer(DAMAGED | OCCUPIED) => None,
        RedisReply::Integer(number) if *number > OCCUPIED => {
            CounterState::decode_number(limit, *number as u64)
        }
        // A log stays where it is: the script reports what a verdict needs.
        RedisReply::Bytes(_) if is_log(limit) => None,
        RedisReply::Bytes(raw) if limit.capacity() > 0 => CounterState::decode(limit, raw),
        _ => Some(CounterState::fresh(limit)),
    }
}

pub(crate) fn number(reply: &RedisReply) -> Option<u64> {
    match reply {
        RedisReply::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}
