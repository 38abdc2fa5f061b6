//! A call whose requests are decided here, because their limits have no twin among the scripts: reads
//! the states, lets `core` decide, and stores the result if nothing has changed meanwhile.

use tidegate_core::{ChargeAccounts, Cost, CounterState, Limit, Span, Timestamp, Verdict, settle};
use tidegate_store::{StoreError, StoreErrorKind, Verdicts};

use crate::batch::{RedisAnswer, RedisCharge, RedisRequest};
use crate::batch_call::BatchCall;
use crate::link::{RedisReply, RedisScript, ScriptCall};
use crate::message_pack;
use crate::script_replay::{ScriptCharges, number};

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

/// A key, with its state.
struct ComputedKey<'a> {
    name: &'a [u8],
    limit: Limit,
    phase: Span,
    /// What Redis has under the key.
    found: Option<Vec<u8>>,
    /// What was found, and what becomes of it. `None` if the value is not one of ours.
    before: Option<CounterState>,
    after: Option<CounterState>,
    is_reset: bool,
}

/// Requests that have to be stored together, and their keys.
#[derive(Default)]
struct ConnectedRequests<'a> {
    /// Positions of keys.
    keys: Vec<usize>,
    /// Requests in their order, with the positions of their answers.
    requests: Vec<(usize, &'a RedisRequest)>,
    is_settled: bool,
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
    pub(crate) fn is_settled(&self) -> bool {
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

impl ComputedKey<'_> {
    /// Remembers what Redis has under the key.
    fn record(&mut self, found: &RedisReply) -> Option<()> {
        self.found = match found {
            RedisReply::Bytes(raw) => Some(raw.clone()),
            RedisReply::Nil => None,
            _ => return None,
        };
        Some(())
    }

    fn decode(&mut self) {
        self.before = match &self.found {
            Some(raw) => CounterState::decode(&self.limit, raw),
            None => Some(CounterState::fresh(&self.limit)),
        };
        self.after = self.before.clone();
        self.is_reset = false;
    }

    fn has_changed(&self) -> bool {
        self.is_reset || self.after != self.before
    }

    /// Writes what the script compares and stores.
    fn write(&self, out: &mut Vec<u8>) {
        match &self.found {
            Some(raw) => message_pack::bytes(out, raw),
            None => message_pack::no(out),
        }
        match &self.after {
            Some(state) if self.has_changed() => {
                let is_fresh = *state == CounterState::fresh(&self.limit);
                let bytes = if is_fresh { Vec::new() } else { self.encode(state) };
                message_pack::bytes(out, &bytes);
            }
            _ => message_pack::no(out),
        }
        let forget_at = self.after.as_ref().map_or(Timestamp::ZERO, CounterState::forget_at);
        message_pack::number(out, forget_at.before(self.phase).as_micros());
    }

    fn encode(&self, state: &CounterState) -> Vec<u8> {
        let bytes = state.encode();
        if bytes.len() <= LARGEST {
            return bytes;
        }
        let mut coarse = state.clone();
        coarse.coarsen(&self.limit);
        coarse.encode()
    }
}

/// The largest state that is stored as it is: as many entries as `sliding_log.lua` stores.
const LARGEST: usize = 8_192 * 10;

/// Decides one request, and changes the states of its keys.
fn decide(request: &RedisRequest, keys: &mut [ComputedKey<'_>], now: Timestamp) -> RedisAnswer {
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

/// Divides the requests of a call: two that have a key in common are in the same group.
fn connected_requests(call: &BatchCall, keys: usize) -> Vec<ConnectedRequests<'_>> {
    // The first key of each key's group, or a key that leads there.
    let mut first: Vec<usize> = (0..keys).collect();
    for group in call.groups() {
        let items = group.request.items();
        for pair in items.windows(2) {
            let [one, other] = [&pair[0], &pair[1]].map(|item| root(&first, item.key_index));
            first[one.max(other)] = one.min(other);
        }
    }
    let mut groups: Vec<ConnectedRequests<'_>> = Vec::new();
    let mut known = vec![None; keys];
    for key in 0..keys {
        let root = root(&first, key);
        let place = *known[root].get_or_insert_with(|| {
            groups.push(ConnectedRequests::default());
            groups.len() - 1
        });
        groups[place].keys.push(key);
    }
    for (place, request) in call.each_request().enumerate() {
        let key = request.items().first().map(|item| root(&first, item.key_index));
        if let Some(group) = key.and_then(|key| known[key]) {
            groups[group].requests.push((place, request));
        }
    }
    groups
}

fn root(first: &[usize], mut key: usize) -> usize {
    while first[key] != key {
        key = first[key];
    }
    key
}

fn damaged(items: &[RedisCharge]) -> StoreError {
    let keys: Vec<_> = items.iter().map(|item| format!("{:?}", item.key)).collect();
    StoreError::new(
        StoreErrorKind::WrongType,
        format!("key {} holds a value that Tidegate did not write", keys.join(" or ")),
    )
    .with_outcome(false)
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
