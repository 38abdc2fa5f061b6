//! A call of the settle script: its arguments, and what its reply means.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Limit, Span, Timestamp};
use tidegate_store::{StoreError, StoreErrorKind};

use crate::batch::{
    BatchKey, IdenticalRequests, RedisAnswer, RedisBatch, RedisCharge, RedisRequest,
};
use crate::link::RedisReply;
use crate::script_replay::ScriptReplay;
use crate::{message_pack, rule, shared_keys};

/// The requests of one call to Redis. Keys that are not connected come first, grouped by rule: one
/// loop per rule is what makes a call cheap.
#[derive(Debug)]
pub(crate) struct BatchCall {
    batch: RedisBatch,
    /// For each key of the batch, its position in the call.
    positions: Vec<usize>,
    /// For each position in the call, the key's index in the batch.
    order: Vec<usize>,
}

impl BatchCall {
    pub(crate) fn new(batch: RedisBatch) -> Self {
        let mut order: Vec<usize> = (0..batch.keys.len()).collect();
        order.sort_by_key(|index| (batch.keys[*index].connected, batch.keys[*index].rule_cost));
        let mut positions = vec![0; order.len()];
        for (position, index) in order.iter().enumerate() {
            positions[*index] = position;
        }
        Self { batch, positions, order }
    }

    pub(crate) fn groups(&self) -> &[IdenticalRequests] {
        &self.batch.groups
    }

    /// How many requests the call has.
    #[cfg(test)]
    pub(crate) const fn requests(&self) -> usize {
        self.batch.requests
    }

    pub(crate) fn first(&self) -> Option<&RedisRequest> {
        self.groups().first().map(|group| &group.request)
    }

    /// Whether its requests are decided here and not by a script.
    pub(crate) fn is_computed(&self) -> bool {
        self.first().is_some_and(RedisRequest::is_computed)
    }

    /// The one request, if it concerns keys that another limiter also writes.
    pub(crate) fn shared_key_request(&self) -> Option<&RedisRequest> {
        self.first().filter(|request| request.has_shared_keys())
    }

    /// How many keys the call has.
    pub(crate) fn keys(&self) -> usize {
        self.order.len()
    }

    /// The names of keys, in the order of the call.
    pub(crate) fn names(&self) -> Vec<&[u8]> {
        self.entries().map(|entry| entry.name.as_bytes()).collect()
    }

    /// Keys, in the order of the call.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &BatchKey> + Clone {
        self.order.iter().map(|index| &self.batch.keys[*index])
    }

    /// Keys, in the order in which they were added.
    pub(crate) fn batch_keys(&self) -> impl Iterator<Item = &BatchKey> {
        self.batch.keys.iter()
    }

    pub(crate) fn limit_of(&self, entry: &BatchKey) -> &Limit {
        &self.batch.rule_costs[entry.rule_cost].0
    }

    /// The position of a charge's key in the call.
    pub(crate) fn position_of(&self, item: &RedisCharge) -> usize {
        self.positions[item.key_index]
    }

    fn is_connected(&self, request: &RedisRequest) -> bool {
        request.items().iter().any(|item| self.batch.keys[item.key_index].connected)
    }

    /// The script's first argument; see `request.lua`.
    pub(crate) fn argument(&self, now: Timestamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 8 * self.batch.groups.len());
        message_pack::list(&mut out, self.batch.rule_costs.len());
        for (limit, cost) in &self.batch.rule_costs {
            rule::write(&mut out, limit, *cost, now);
        }
        self.write_runs(&mut out);
        self.write_phases(&mut out);
        let connected = self.entries().filter(|entry| entry.connected);
        write_unless_empty(&mut out, connected.map(|entry| entry.rule_cost as u64 + 1));
        self.write_requests(&mut out);
        out
    }

    /// Writes, for keys that are not connected, how many keys each rule has, and how many requests
    /// each key has unless every key has one.
    fn write_runs(&self, out: &mut Vec<u8>) {
        let alone = self.entries().filter(|entry| !entry.connected);
        let mut runs: SmallVec<[u64; 8]> = smallvec![0; self.batch.rule_costs.len()];
        alone.clone().for_each(|entry| runs[entry.rule_cost] += 1);
        message_pack::list(out, runs.len());
        runs.into_iter().for_each(|run| message_pack::number(out, run));
        let several = alone.clone().any(|entry| entry.repeats > 1);
        write_unless_empty(out, alone.filter(|_| several).map(|entry| entry.repeats));
    }

    /// Writes the phase of each key, or nil if no key has one, as is nearly always the case.
    fn write_phases(&self, out: &mut Vec<u8>) {
        let staggered = self.batch.keys.iter().any(|entry| !entry.phase.is_zero());
        let phases = self.entries().filter(|_| staggered).map(|entry| entry.phase);
        write_unless_empty(out, phases.map(Span::as_micros));
    }

    fn write_requests(&self, out: &mut Vec<u8>) {
        let (mut requests, mut count) = (Vec::new(), 0);
        for group in self.groups().iter().filter(|group| self.is_connected(&group.request)) {
            for _ in 0..group.size {
                count += self.write_request(&group.request, &mut requests);
            }
        }
        if count > 0 {
            message_pack::list(out, count);
            out.append(&mut requests);
        }
    }

    /// Writes one request, and returns how many numbers that took; see `connected.lua`.
    fn write_request(&self, request: &RedisRequest, out: &mut Vec<u8>) -> usize {
        match request {
            RedisRequest::Settle(items) => match items.as_slice() {
                [item] => self.write_item(item, out),
                items => {
                    message_pack::number(out, 0);
                    message_pack::number(out, items.len() as u64);
                    for item in items {
                        self.write_item(item, out);
                        message_pack::number(out, item.shadow_position(items));
                    }
                    2 + 3 * items.len()
                }
            },
            RedisRequest::Peek(items) => {
                message_pack::negative(out, -3);
                message_pack::number(out, items.len() as u64);
                items.iter().fold(2, |count, item| count + self.write_item(item, out))
            }
            RedisRequest::Refund(item) => {
                message_pack::negative(out, -1);
                self.write_item(item, out);
                message_pack::number(out, item.cost.get());
                4
            }
            RedisRequest::Reset(item) => {
                message_pack::negative(out, -2);
                message_pack::number(out, self.position_of(item) as u64 + 1);
                2
            }
        }
    }

    fn write_item(&self, item: &RedisCharge, out: &mut Vec<u8>) -> usize {
        message_pack::number(out, self.position_of(item) as u64 + 1);
        message_pack::number(out, item.rule_cost as u64 + 1);
        2
    }

    /// The answer to each request, in order.
    pub(crate) fn answers(&self, reply: &RedisReply) -> Vec<RedisAnswer> {
        if let Some(request) = self.shared_key_request() {
            return vec![
                shared_keys::answer(request, reply).unwrap_or_else(|| Err(unexpected_shape())),
            ];
        }
        match ScriptReplay::new(self, reply) {
            Some(mut replay) => self.each_request().map(|request| replay.answer(request)).collect(),
            None => self.each_request().map(|_| Err(unexpected_shape())).collect(),
        }
    }

    /// The same error for every request.
    pub(crate) fn fail_all(&self, error: &StoreError) -> Vec<RedisAnswer> {
        self.each_request().map(|_| Err(error.clone())).collect()
    }

    /// Every request, in order.
    pub(crate) fn each_request(&self) -> impl Iterator<Item = &RedisRequest> {
        self.groups().iter().flat_map(|group| std::iter::repeat_n(&group.request, group.size))
    }
}

/// Writes a list, or nil if it is empty, so that Redis need not create it.
fn write_unless_empty(out: &mut Vec<u8>, numbers: impl Iterator<Item = u64> + Clone) {
    match numbers.clone().count() {
        0 => message_pack::nothing(out),
        length => {
            message_pack::list(out, length);
            numbers.for_each(|number| message_pack::number(out, number));
        }
    }
}

pub(crate) fn unexpected_shape() -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, "the script's reply has an unexpected shape")
}
