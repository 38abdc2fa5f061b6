//! Many requests in one call: what is sent, and what the answer means.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use smallvec::SmallVec;
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Rule, Span};
use tidegate_store::{StoreError, StoreErrorKind, Verdicts};

use crate::key::KeyName;
use crate::link::Reply;
use crate::plain::{self, Plain};
use crate::replay::Replay;
use crate::{pack, rule};

/// A charge that can wait in a queue: it borrows nothing.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) key: KeyName,
    pub(crate) counter: Fingerprint,
    pub(crate) cost: Cost,
    pub(crate) rule: Rule,
    /// How far the key's own time runs ahead.
    pub(crate) phase: Span,
    /// Where another limiter keeps the count too; then `key` only tells the slot.
    pub(crate) plain: Option<Box<Plain>>,
}

impl Item {
    pub(crate) fn new(prefix: &[u8], charge: &Charge<'_>) -> Self {
        Self {
            key: KeyName::new(prefix, charge),
            counter: charge.counter(),
            cost: charge.cost(),
            rule: *charge.rule(),
            phase: charge.phase(),
            plain: None,
        }
    }

    pub(crate) fn charge(&self) -> Charge<'_> {
        Charge::new(self.counter ^ self.rule.id, self.cost, &self.rule)
    }
}

/// Charges that are decided together.
pub(crate) type Items = SmallVec<[Item; 1]>;

/// Something to ask of Redis.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Settle(Items),
    Refund(Item),
    Reset(Item),
}

impl Ask {
    pub(crate) fn items(&self) -> &[Item] {
        match self {
            Self::Settle(items) => items,
            Self::Refund(item) | Self::Reset(item) => std::slice::from_ref(item),
        }
    }

    /// Whether it concerns keys that another limiter writes too.
    fn is_plain(&self) -> bool {
        self.items().iter().any(|item| item.plain.is_some())
    }

    /// Where a Cluster decides it. All its keys are there: the caller saw to that.
    pub(crate) fn slot(&self) -> u16 {
        self.items().first().map_or(0, |item| item.key.slot())
    }
}

/// Whether a request passes, and each charge's verdict.
pub(crate) type Answer = Result<(bool, Verdicts), StoreError>;

/// Requests on their way to Redis in one call.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    asks: Vec<Ask>,
    keys: Vec<(KeyName, usize, Span)>,
    places: HashMap<Fingerprint, usize, RandomState>,
    limits: Vec<Limit>,
}

impl Batch {
    /// Keys in one call: past this they gain little, and a script must not run for long.
    pub(crate) const MAX_KEYS: usize = 128;
    /// Requests in one call.
    pub(crate) const MAX_ASKS: usize = 512;

    /// Takes a request in, or hands it back: there is no room, or it knows another limit for the
    /// same counter, which happens while a policy is being replaced.
    pub(crate) fn add(&mut self, ask: Ask) -> Result<(), Ask> {
        let is_first = self.asks.is_empty();
        let full = self.asks.len() >= Self::MAX_ASKS
            || self.keys.len() + ask.items().len() > Self::MAX_KEYS;
        let differs = |item: &Item| {
            let place = self.places.get(&item.counter);
            place.is_some_and(|place| *self.limit_of(*place) != item.rule.limit)
        };
        // Those have a script of their own, which takes one request.
        let apart = ask.is_plain() || self.plain().is_some();
        if !is_first && (apart || full || ask.items().iter().any(differs)) {
            return Err(ask);
        }
        for item in ask.items() {
            self.place(item);
        }
        self.asks.push(ask);
        Ok(())
    }

    fn place(&mut self, item: &Item) {
        if self.places.contains_key(&item.counter) {
            return;
        }
        let limit = match self.limits.iter().position(|limit| *limit == item.rule.limit) {
            Some(known) => known,
            None => {
                self.limits.push(item.rule.limit);
                self.limits.len() - 1
            }
        };
        self.places.insert(item.counter, self.keys.len());
        self.keys.push((item.key.clone(), limit, item.phase));
    }

    /// The one request, if it concerns keys that another limiter writes too.
    pub(crate) fn plain(&self) -> Option<&Ask> {
        self.asks.first().filter(|ask| ask.is_plain())
    }

    pub(crate) fn len(&self) -> usize {
        self.asks.len()
    }

    pub(crate) fn slot(&self) -> u16 {
        self.asks.first().map_or(0, Ask::slot)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|(name, ..)| name.as_bytes())
    }

    pub(crate) fn asks(&self) -> &[Ask] {
        &self.asks
    }

    /// The number of keys.
    pub(crate) fn width(&self) -> usize {
        self.keys.len()
    }

    /// A key's limit, by its place.
    pub(crate) fn limit_of(&self, place: usize) -> &Limit {
        &self.limits[self.keys[place].1]
    }

    /// A key's phase, by its place.
    pub(crate) fn phase_of(&self, place: usize) -> Span {
        self.keys[place].2
    }

    /// Where an item's key is.
    pub(crate) fn place_of(&self, item: &Item) -> usize {
        self.places.get(&item.counter).copied().unwrap_or_default()
    }

    /// The script's first argument: limits, keys and requests.
    pub(crate) fn argument(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 8 * self.asks.len());
        pack::list(&mut out, 3);
        pack::list(&mut out, self.limits.len());
        self.limits.iter().for_each(|limit| rule::write(&mut out, limit));
        pack::list(&mut out, 2 * self.keys.len());
        for (_, limit, phase) in &self.keys {
            pack::number(&mut out, *limit as u64 + 1);
            pack::number(&mut out, phase.as_micros());
        }
        let (mut requests, mut count) = (Vec::with_capacity(4 * self.asks.len()), 0);
        self.asks.iter().for_each(|ask| count += self.write(ask, &mut requests));
        pack::list(&mut out, count);
        out.append(&mut requests);
        out
    }

    /// Writes one request, and says how many numbers that took; see `settle.lua`.
    fn write(&self, ask: &Ask, out: &mut Vec<u8>) -> usize {
        match ask {
            Ask::Settle(items) => match items.as_slice() {
                [item] => self.write_item(item, out),
                items => {
                    pack::number(out, 0);
                    pack::number(out, items.len() as u64);
                    for item in items {
                        self.write_item(item, out);
                        pack::number(out, u64::from(item.rule.enforced));
                    }
                    2 + 4 * items.len()
                }
            },
            Ask::Refund(item) => {
                pack::negative(out, -1);
                1 + self.write_item(item, out)
            }
            Ask::Reset(item) => {
                pack::negative(out, -2);
                pack::number(out, self.place_of(item) as u64 + 1);
                2
            }
        }
    }

    fn write_item(&self, item: &Item, out: &mut Vec<u8>) -> usize {
        let (cost, rest) = rule::cost(&item.rule.limit, item.cost);
        pack::number(out, self.place_of(item) as u64 + 1);
        pack::number(out, cost);
        pack::number(out, rest);
        3
    }

    /// What each request is told, in their order.
    pub(crate) fn answers(&self, reply: &Reply) -> Vec<Answer> {
        if let Some(ask) = self.plain() {
            return vec![plain::answer(ask, reply).unwrap_or_else(|| Err(misunderstood()))];
        }
        match Replay::new(self, reply) {
            Some(mut replay) => self.asks.iter().map(|ask| replay.answer(ask)).collect(),
            None => self.asks.iter().map(|_| Err(misunderstood())).collect(),
        }
    }
}

fn misunderstood() -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, "the script's answer has another shape than ours")
}
