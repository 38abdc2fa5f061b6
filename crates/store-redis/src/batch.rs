//! Gathers many requests into one call.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule, Span};
use tidegate_store::{StoreError, Verdicts};

use crate::key::KeyName;
use crate::parcel::Parcel;
use crate::plain::Plain;

/// A charge that can wait in a queue: it borrows nothing.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: KeyName,
    pub(crate) counter: Fingerprint,
    pub(crate) cost: Cost,
    pub(crate) rule: Rule,
    pub(crate) policy: u32,
    /// How far the key's own time runs ahead.
    pub(crate) phase: Span,
    /// Set if another limiter keeps the count too; then `key` only determines the slot.
    pub(crate) plain: Option<Box<Plain>>,
    /// The position of its key in the batch, and of its limit and cost, once it is in one.
    pub(crate) place: usize,
    pub(crate) price: usize,
}

impl Item {
    pub(crate) fn new(prefix: &[u8], charge: &Charge<'_>) -> Self {
        Self {
            key: KeyName::new(prefix, charge),
            counter: charge.counter(),
            cost: charge.cost(),
            rule: *charge.rule(),
            policy: charge.policy(),
            phase: charge.phase(),
            plain: None,
            place: 0,
            price: 0,
        }
    }

    /// Which of `items`, counted from 1, is the first shadow limit of the same policy and caller; 0 if
    /// this one is enforced.
    pub(crate) fn watch(&self, items: &[Self]) -> u64 {
        let charge = self.charge();
        let first = items.iter().position(|other| other.charge().watches_with(&charge));
        first.map_or(0, |index| index as u64 + 1)
    }

    pub(crate) fn charge(&self) -> Charge<'_> {
        Charge::new(self.counter ^ self.rule.id, self.cost, &self.rule).of_policy(self.policy)
    }
}

/// Charges that are decided together.
pub(crate) type Items = Vec<Item>;

/// Something to ask Redis. Small, whatever it is about: it moves from caller to queue to call.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Settle(Items),
    /// What each charge would be told by itself. Nothing is taken.
    Look(Items),
    Refund(Box<Item>),
    Reset(Box<Item>),
}

impl Ask {
    pub(crate) fn items(&self) -> &[Item] {
        match self {
            Self::Settle(items) | Self::Look(items) => items,
            Self::Refund(item) | Self::Reset(item) => std::slice::from_ref(&**item),
        }
    }

    fn items_mut(&mut self) -> &mut [Item] {
        match self {
            Self::Settle(items) | Self::Look(items) => items,
            Self::Refund(item) | Self::Reset(item) => std::slice::from_mut(&mut **item),
        }
    }

    /// Whether it concerns keys that another limiter also writes.
    pub(crate) fn is_plain(&self) -> bool {
        self.items().iter().any(|item| item.plain.is_some())
    }

    /// The slot where a Cluster decides it. All its keys are there: the caller has made sure of
    /// that.
    pub(crate) fn slot(&self) -> u16 {
        self.items().first().map_or(0, |item| item.key.slot())
    }
}

impl Ask {
    /// Whose counters it concerns first.
    pub(crate) fn subject(&self) -> Fingerprint {
        let nobody = Fingerprint::new(0, 0);
        self.items().first().map_or(nobody, |item| item.charge().subject())
    }

    /// Whether this charge alone would be the same request.
    pub(crate) fn is_like(&self, charge: &Charge<'_>) -> bool {
        let Self::Settle(items) = self else { return false };
        let [item] = items.as_slice() else { return false };
        item.counter == charge.counter()
            && item.cost == charge.cost()
            && item.rule == *charge.rule()
            && item.plain.is_none()
    }
}

/// Whether a request passes, and each charge's verdict.
pub(crate) type Answer = Result<(bool, Verdicts), StoreError>;

/// Requests being collected for one call.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) crowds: Vec<Crowd>,
    /// How many requests there are.
    pub(crate) requests: usize,
    pub(crate) keys: Vec<Entry>,
    places: HashMap<Fingerprint, usize, RandomState>,
    pub(crate) prices: Vec<(Limit, Cost)>,
}

/// Identical requests that follow one another.
#[derive(Clone, Debug)]
pub(crate) struct Crowd {
    pub(crate) ask: Ask,
    pub(crate) size: usize,
}

impl Crowd {
    /// A request by itself.
    pub(crate) const fn of_one(ask: Ask) -> Self {
        Self { ask, size: 1 }
    }
}

/// A key, and what is asked of it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: KeyName,
    /// By which its state is read, and if nothing connects it, decided.
    pub(crate) price: usize,
    pub(crate) phase: Span,
    /// Requests that are all alike: one limit, one cost.
    pub(crate) times: u64,
    /// Whether some are not alike: they have several limits, or another cost, or are refunds. Then
    /// their order matters, even across keys.
    pub(crate) connected: bool,
}

impl Batch {
    /// Keys in one call. Beyond this there is little to gain, and a script must not run for long.
    pub(crate) const MAX_KEYS: usize = 128;
    /// Requests in one call.
    pub(crate) const MAX_REQUESTS: usize = 512;

    /// Whether there is room for a request.
    pub(crate) fn has_room_for(&self, ask: &Ask, size: usize) -> bool {
        // These have a script of their own, which takes one request.
        let apart = ask.is_plain() || self.crowds.first().is_some_and(|crowd| crowd.ask.is_plain());
        let fits = self.requests + size <= Self::MAX_REQUESTS
            && self.keys.len() + ask.items().len() <= Self::MAX_KEYS;
        self.crowds.is_empty() || (fits && !apart)
    }

    /// Whether all its counters are in the call already.
    pub(crate) fn knows(&self, ask: &Ask) -> bool {
        ask.items().iter().all(|item| self.places.contains_key(&item.counter))
    }

    pub(crate) fn add(&mut self, mut crowd: Crowd) {
        let connected = !matches!(&crowd.ask, Ask::Settle(items) if items.len() == 1);
        let times = crowd.size as u64;
        for item in crowd.ask.items_mut() {
            let price = self.price(item.rule.limit, item.cost);
            item.price = price;
            item.place = *self.places.entry(item.counter).or_insert(self.keys.len());
            match self.keys.get_mut(item.place) {
                Some(entry) => {
                    entry.times += times;
                    entry.connected |= connected || entry.price != price;
                    // A limit of zero reads no state, and others of the same counter do.
                    if self.prices[entry.price].0.capacity() == 0 {
                        entry.price = price;
                    }
                }
                None => {
                    let (name, phase) = (item.key.clone(), item.phase);
                    self.keys.push(Entry { name, price, phase, times, connected });
                }
            }
        }
        self.requests += crowd.size;
        self.crowds.push(crowd);
    }

    fn price(&mut self, limit: Limit, cost: Cost) -> usize {
        self.prices.iter().position(|price| *price == (limit, cost)).unwrap_or_else(|| {
            self.prices.push((limit, cost));
            self.prices.len() - 1
        })
    }

    /// Closes the batch: nothing more can be added.
    pub(crate) fn seal(self) -> Parcel {
        Parcel::new(self)
    }
}
