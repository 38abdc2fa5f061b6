//! Collects the requests of one call to Redis.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule, Span};
use tidegate_store::{StoreError, Verdicts};

use crate::batch_call::BatchCall;
use crate::key_name::KeyName;
use crate::rule;
use crate::shared_keys::SharedKey;

/// A charge that can wait in a queue: it borrows nothing.
#[derive(Clone, Debug)]
pub(crate) struct RedisCharge {
    pub(crate) key: KeyName,
    pub(crate) counter: Fingerprint,
    pub(crate) cost: Cost,
    pub(crate) rule: Rule,
    pub(crate) policy: u32,
    /// How far the key's own time runs ahead.
    pub(crate) phase: Span,
    /// Set if another limiter keeps the count too; then `key` only determines the slot.
    pub(crate) shared_key: Option<Box<SharedKey>>,
    /// Whether no script can decide it, so that it is decided here.
    pub(crate) is_computed: bool,
    /// The positions of its key, and of its limit and cost, in the batch that it was added to.
    pub(crate) key_index: usize,
    pub(crate) rule_cost: usize,
}

impl RedisCharge {
    pub(crate) fn new(prefix: &[u8], charge: &Charge<'_>) -> Self {
        Self {
            key: KeyName::new(prefix, charge),
            counter: charge.counter(),
            cost: charge.cost(),
            rule: *charge.rule(),
            policy: charge.policy(),
            phase: charge.phase(),
            shared_key: None,
            is_computed: !rule::has_twin(&charge.rule().limit),
            key_index: 0,
            rule_cost: 0,
        }
    }

    /// Which of `items`, counted from 1, is the first shadow limit of the same policy and caller; 0 if
    /// this one is enforced.
    pub(crate) fn shadow_position(&self, items: &[Self]) -> u64 {
        let charge = self.charge();
        let first = items.iter().position(|other| other.charge().watches_with(&charge));
        first.map_or(0, |index| index as u64 + 1)
    }

    pub(crate) fn charge(&self) -> Charge<'_> {
        Charge::new(self.counter ^ self.rule.id, self.cost, &self.rule).of_policy(self.policy)
    }
}

/// Charges that are decided together.
pub(crate) type RedisCharges = Vec<RedisCharge>;

/// A request to Redis. Every variant is small, because requests move from caller to queue to call.
#[derive(Clone, Debug)]
pub(crate) enum RedisRequest {
    Settle(RedisCharges),
    /// Reports the verdict of each charge on its own, and takes nothing.
    Peek(RedisCharges),
    Refund(Box<RedisCharge>),
    Reset(Box<RedisCharge>),
}

impl RedisRequest {
    pub(crate) fn items(&self) -> &[RedisCharge] {
        match self {
            Self::Settle(items) | Self::Peek(items) => items,
            Self::Refund(item) | Self::Reset(item) => std::slice::from_ref(&**item),
        }
    }

    fn items_mut(&mut self) -> &mut [RedisCharge] {
        match self {
            Self::Settle(items) | Self::Peek(items) => items,
            Self::Refund(item) | Self::Reset(item) => std::slice::from_mut(&mut **item),
        }
    }

    /// Whether any of its keys is also written by another limiter.
    pub(crate) fn has_shared_keys(&self) -> bool {
        self.items().iter().any(|item| item.shared_key.is_some())
    }

    /// Whether it is decided here and not by a script: one limit without a twin is enough.
    pub(crate) fn is_computed(&self) -> bool {
        self.items().iter().any(|item| item.is_computed)
    }

    /// The slot in which a Cluster decides the request. The caller has made sure that all its keys
    /// are there.
    pub(crate) fn slot(&self) -> u16 {
        self.items().first().map_or(0, |item| item.key.slot())
    }
}

impl RedisRequest {
    /// The subject of its first counter.
    pub(crate) fn subject(&self) -> Fingerprint {
        let nobody = Fingerprint::new(0, 0);
        self.items().first().map_or(nobody, |item| item.charge().subject())
    }

    /// Whether this charge alone would be the same request.
    pub(crate) fn is_same_as(&self, charge: &Charge<'_>) -> bool {
        let Self::Settle(items) = self else { return false };
        let [item] = items.as_slice() else { return false };
        item.counter == charge.counter()
            && item.cost == charge.cost()
            && item.rule == *charge.rule()
            && item.shared_key.is_none()
    }
}

/// Whether a request passes, and each charge's verdict.
pub(crate) type RedisAnswer = Result<(bool, Verdicts), StoreError>;

/// Requests being collected for one call.
#[derive(Debug, Default)]
pub(crate) struct RedisBatch {
    pub(crate) groups: Vec<IdenticalRequests>,
    /// How many requests there are.
    pub(crate) requests: usize,
    pub(crate) keys: Vec<BatchKey>,
    /// Each counter's position in `keys`.
    key_indexes: HashMap<Fingerprint, usize, RandomState>,
    pub(crate) rule_costs: Vec<(Limit, Cost)>,
}

/// Identical requests that follow one another.
#[derive(Clone, Debug)]
pub(crate) struct IdenticalRequests {
    pub(crate) request: RedisRequest,
    pub(crate) size: usize,
}

impl IdenticalRequests {
    /// A single request.
    pub(crate) const fn single(request: RedisRequest) -> Self {
        Self { request, size: 1 }
    }
}

/// A key of a batch, with a summary of its requests.
#[derive(Debug)]
pub(crate) struct BatchKey {
    pub(crate) name: KeyName,
    /// The index of the limit and cost by which the key's state is read and, unless the key is
    /// connected, its requests are decided.
    pub(crate) rule_cost: usize,
    pub(crate) phase: Span,
    /// How many requests it has. Unless the key is connected, they are identical.
    pub(crate) repeats: u64,
    /// Whether any of its requests differs: it has several limits or another cost, or is not a plain
    /// charge. Then the order of requests matters, even across keys.
    pub(crate) connected: bool,
}

impl RedisBatch {
    /// The most keys in one call. Beyond this there is little to gain, and a script must not run for long.
    pub(crate) const MAX_KEYS: usize = 128;
    /// The most requests in one call.
    pub(crate) const MAX_REQUESTS: usize = 512;

    /// Whether there is room for `size` identical requests.
    pub(crate) fn has_room_for(&self, request: &RedisRequest, size: usize) -> bool {
        // Shared keys have a script of their own, which takes one request.
        let apart = request.has_shared_keys()
            || self.groups.first().is_some_and(|group| group.request.has_shared_keys());
        let fits = self.requests + size <= Self::MAX_REQUESTS
            && self.keys.len() + request.items().len() <= Self::MAX_KEYS;
        self.groups.is_empty() || (fits && !apart)
    }

    /// Whether all counters of a request are already in the batch.
    pub(crate) fn has_all_counters(&self, request: &RedisRequest) -> bool {
        request.items().iter().all(|item| self.key_indexes.contains_key(&item.counter))
    }

    pub(crate) fn add(&mut self, mut group: IdenticalRequests) {
        let connected = !matches!(&group.request, RedisRequest::Settle(items) if items.len() == 1);
        let repeats = group.size as u64;
        for item in group.request.items_mut() {
            let rule_cost = self.rule_cost_index(item.rule.limit, item.cost);
            item.rule_cost = rule_cost;
            item.key_index = *self.key_indexes.entry(item.counter).or_insert(self.keys.len());
            match self.keys.get_mut(item.key_index) {
                Some(entry) => {
                    entry.repeats += repeats;
                    entry.connected |= connected || entry.rule_cost != rule_cost;
                    // A limit of zero reads no state, and others of the same counter do.
                    if self.rule_costs[entry.rule_cost].0.capacity() == 0 {
                        entry.rule_cost = rule_cost;
                    }
                }
                None => {
                    let (name, phase) = (item.key.clone(), item.phase);
                    self.keys.push(BatchKey { name, rule_cost, phase, repeats, connected });
                }
            }
        }
        self.requests += group.size;
        self.groups.push(group);
    }

    fn rule_cost_index(&mut self, limit: Limit, cost: Cost) -> usize {
        self.rule_costs.iter().position(|known| *known == (limit, cost)).unwrap_or_else(|| {
            self.rule_costs.push((limit, cost));
            self.rule_costs.len() - 1
        })
    }

    /// Closes the batch: nothing more can be added.
    pub(crate) fn seal(self) -> BatchCall {
        BatchCall::new(self)
    }
}
