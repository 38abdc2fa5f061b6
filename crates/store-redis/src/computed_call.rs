//! A call whose requests are decided here, because their limits have no twin among the scripts: reads
//! the states, lets `core` decide, and stores the result if nothing has changed meanwhile.

mod connected_requests;
mod decide;
mod key;

use tidegate_core::Timestamp;
use tidegate_store::{StoreError, StoreErrorKind};

use self::connected_requests::{ConnectedRequests, connected_requests};
use self::decide::{damaged, decide};
use self::key::ComputedKey;
use crate::batch::RedisAnswer;
use crate::batch_call::BatchCall;
use crate::link::{RedisReply, RedisScript, ScriptCall};
use crate::message_pack;
use crate::script_replay::number;

/// How often a call decides anew because another instance changed its counters. Of the instances that
/// contend for a counter one succeeds in every round trip, and the others follow in turn.
pub(crate) const MAX_ROUNDS: usize = 64;

/// Outcomes of a group; see `compare_and_set.lua`.
const WRITTEN: u64 = 1;
const OCCUPIED: u64 = 2;

/// The requests of a call, while they are being decided.
pub(crate) struct ComputedCall<'a> {
    keys: Vec<ComputedKey<'a>>,
    /// Requests that share no key with each other, directly or through others, are stored and
    /// repeated apart.
    groups: Vec<ConnectedRequests<'a>>,
    /// The answer to each request. It is final once its group is settled.
    answers: Vec<RedisAnswer>,
    rounds: usize,
}

impl<'a> ComputedCall<'a> {
    pub(crate) fn new(call: &'a BatchCall) -> Self {
        let keys = call.batch_keys().map(|entry| ComputedKey {
            name: entry.name.as_bytes(),
            limit: *call.limit_of(entry),
            phase: entry.phase,
            found: None,
            before: None,
            after: None,
            is_reset: false,
        });
        let keys: Vec<_> = keys.collect();
        let groups = connected_requests(call, keys.len());
        let answers = call.fail_all(&StoreError::new(StoreErrorKind::Other, "not decided"));
        Self { keys, groups, answers, rounds: 0 }
    }

    /// The next call of the script: reads all states at first, and then stores decisions.
    pub(crate) fn script_call(&self, script: &'static RedisScript) -> ScriptCall {
        let names: Vec<&[u8]> = self.open_keys().map(|key| self.keys[key].name).collect();
        let mut call = ScriptCall::new(script, &names);
        let mut argument = Vec::with_capacity(16 + 64 * names.len());
        let groups = if self.rounds == 0 { 0 } else { self.open_groups().count() };
        message_pack::list(&mut argument, groups);
        for group in self.open_groups().take(groups) {
            message_pack::list(&mut argument, 3 * group.keys.len());
            group.keys.iter().for_each(|key| self.keys[*key].write(&mut argument));
        }
        call.arg(argument);
        call
    }

    /// Takes a reply in, and decides the requests that are not settled yet. `None` if the reply does
    /// not have the expected shape.
    pub(crate) fn record_reply(&mut self, reply: &RedisReply) -> Option<()> {
        let RedisReply::Array(parts) = reply else { return None };
        let groups = if self.rounds == 0 { 0 } else { self.open_groups().count() };
        let keys: Vec<usize> = self.open_keys().collect();
        let (outcomes, rest) = parts.split_at_checked(groups)?;
        let (found, rest) = rest.split_at_checked(keys.len())?;
        let [now] = rest else { return None };
        let now = Timestamp::from_micros(number(now)?);
        let outcomes: Vec<u64> = outcomes.iter().map(number).collect::<Option<_>>()?;
        for (key, found) in keys.into_iter().zip(found) {
            self.keys[key].record(found)?;
        }
        let mut outcomes = outcomes.into_iter();
        for place in 0..self.groups.len() {
            if self.groups[place].is_settled {
                continue;
            }
            match outcomes.next() {
                Some(WRITTEN) => self.groups[place].is_settled = true,
                Some(OCCUPIED) => self.refuse_group(place),
                _ => self.decide_group(place, now),
            }
        }
        self.rounds += 1;
        Some(())
    }

    /// Whether all requests are settled.
    pub(crate) fn is_done(&self) -> bool {
        self.open_groups().next().is_none()
    }

    /// Whether nothing was stored yet.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.rounds == 0
    }

    /// How often the requests were decided.
    pub(crate) const fn rounds(&self) -> usize {
        self.rounds
    }

    /// The answer to each request.
    pub(crate) fn into_answers(self) -> Vec<RedisAnswer> {
        self.answers
    }

    /// The same, with this error for every request that is not settled.
    pub(crate) fn fail_open(mut self, error: &StoreError) -> Vec<RedisAnswer> {
        // Reading takes nothing.
        let may_have_settled = error.may_have_settled() && !self.is_untouched();
        let error = error.clone().with_outcome(may_have_settled);
        for group in self.groups.iter().filter(|group| !group.is_settled) {
            for (place, _) in &group.requests {
                self.answers[*place] = Err(error.clone());
            }
        }
        self.answers
    }

    fn open_groups(&self) -> impl Iterator<Item = &ConnectedRequests<'a>> {
        self.groups.iter().filter(|group| !group.is_settled)
    }

    /// The keys of the groups that are not settled, in the order of the call.
    fn open_keys(&self) -> impl Iterator<Item = usize> {
        self.open_groups().flat_map(|group| group.keys.iter().copied())
    }

    /// Decides the requests of a group by the states that were found. They are settled already if
    /// nothing changes.
    fn decide_group(&mut self, place: usize, now: Timestamp) {
        let Self { keys, groups, answers, .. } = self;
        let group = &mut groups[place];
        for key in &group.keys {
            keys[*key].decode();
        }
        for (place, request) in &group.requests {
            answers[*place] = decide(request, keys, now);
        }
        group.is_settled = !group.keys.iter().any(|key| keys[*key].has_changed());
    }

    /// A key that seemed to be new holds another type. Nothing was stored.
    fn refuse_group(&mut self, place: usize) {
        let group = &mut self.groups[place];
        for (place, request) in &group.requests {
            self.answers[*place] = Err(damaged(request.items()));
        }
        group.is_settled = true;
    }
}

/// Why a call gave up after this many replies. The first one only has the states.
pub(crate) fn too_late(rounds: usize) -> StoreError {
    let error = match rounds {
        ..2 => StoreError::new(StoreErrorKind::Timeout, "the states came too late to decide"),
        _ => StoreError::new(
            StoreErrorKind::Overloaded,
            format!("others changed the counters {} times while they were decided", rounds - 1),
        ),
    };
    error.with_outcome(false)
}
