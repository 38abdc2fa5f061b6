//! Gathers many requests into one call.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule, Span};
use tidegate_store::{StoreError, Verdicts};

use crate::batch_call::BatchCall;
use crate::key_name::KeyName;
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
    /// The position of its key in the batch, and of its limit and cost, once it is in one.
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

/// Something to ask Redis. Small, whatever it is about: it moves from caller to queue to call.
#[derive(Clone, Debug)]
pub(crate) enum RedisRequest {
    Settle(RedisCharges),
    /// What each charge would be told by itself. Nothing is taken.
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

    /// Whether it concerns keys that another limiter also writes.
    pub(crate) fn has_shared_keys(&self) -> bool {
        self.items().iter().any(|item| item.shared_key.is_some())
    }

    /// The slot where a Cluster decides it. All its keys are there: the caller has made sure of
    /// that.
    pub(crate) fn slot(&self) -> u16 {
        self.items().first().map_or(0, |item| item.key.slot())
    }
}

impl RedisRequest {
    /// Whose counters it concerns first.
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
    places: HashMap<Fingerprint, usize, RandomState>,
    pub(crate) rule_costs: Vec<(Limit, Cost)>,
}

/// Identical requests that follow one another.
#[derive(Clone, Debug)]
pub(crate) struct IdenticalRequests {
    pub(crate) request: RedisRequest,
    pub(crate) size: usize,
}

impl IdenticalRequests {
    /// A request by itself.
    pub(crate) const fn single(ask: RedisRequest) -> Self {
        Self { request: ask, size: 1 }
    }
}

/// A key, and what is asked of it.
#[derive(Debug)]
pub(crate) struct BatchKey {
    pub(crate) name: KeyName,
    /// By which its state is read, and if nothing connects it, decided.
    pub(crate) rule_cost: usize,
    pub(crate) phase: Span,
    /// Requests that are all alike: one limit, one cost.
    pub(crate) repeats: u64,
    /// Whether some are not alike: they have several limits, or another cost, or are refunds. Then
    /// their order matters, even across keys.
    pub(crate) connected: bool,
}

impl RedisBatch {
    /// Keys in one call. Beyond this there is little to gain, and a script must not run for long.
    pub(crate) const MAX_KEYS: usize = 128;
    /// Requests in one call.
    pub(crate) const MAX_REQUESTS: usize = 512;

    /// Whether there is room for a request.
    pub(crate) fn has_room_for(&self, ask: &RedisRequest, size: usize) -> bool {
        // These have a script of their own, which takes one request.
        let apart = ask.has_shared_keys()
            || self.groups.first().is_some_and(|crowd| crowd.request.has_shared_keys());
        let fits = self.requests + size <= Self::MAX_REQUESTS
            && self.keys.len() + ask.items().len() <= Self::MAX_KEYS;
        self.groups.is_empty() || (fits && !apart)
    }

    /// Whether all its counters are in the call already.
    pub(crate) fn has_all_counters(&self, ask: &RedisRequest) -> bool {
        ask.items().iter().all(|item| self.places.contains_key(&item.counter))
    }

    pub(crate) fn add(&mut self, mut crowd: IdenticalRequests) {
        let connected = !matches!(&crowd.request, RedisRequest::Settle(items) if items.len() == 1);
        let times = crowd.size as u64;
        for item in crowd.request.items_mut() {
            let price = self.rule_cost_index(item.rule.limit, item.cost);
            item.rule_cost = price;
            item.key_index = *self.places.entry(item.counter).or_insert(self.keys.len());
            match self.keys.get_mut(item.key_index) {
                Some(entry) => {
                    entry.repeats += times;
                    entry.connected |= connected || entry.rule_cost != price;
                    // A limit of zero reads no state, and others of the same counter do.
                    if self.rule_costs[entry.rule_cost].0.capacity() == 0 {
                        entry.rule_cost = price;
                    }
                }
                None => {
                    let (name, phase) = (item.key.clone(), item.phase);
                    self.keys.push(BatchKey {
                        name,
                        rule_cost: price,
                        phase,
                        repeats: times,
                        connected,
                    });
                }
            }
        }
        self.requests += crowd.size;
        self.groups.push(crowd);
    }

    fn rule_cost_index(&mut self, limit: Limit, cost: Cost) -> usize {
        self.rule_costs.iter().position(|price| *price == (limit, cost)).unwrap_or_else(|| {
            self.rule_costs.push((limit, cost));
            self.rule_costs.len() - 1
        })
    }

    /// Closes the batch: nothing more can be added.
    pub(crate) fn seal(self) -> BatchCall {
        BatchCall::new(self)
    }
}
