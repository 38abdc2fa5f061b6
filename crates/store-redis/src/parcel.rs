//! A call: what is sent, and what the answer means.

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Limit, Span, Timestamp};
use tidegate_store::{StoreError, StoreErrorKind};

use crate::batch::{Answer, Ask, Batch, Crowd, Entry, Item};
use crate::link::Reply;
use crate::replay::Replay;
use crate::{pack, plain, rule};

/// Requests on their way to Redis in one call. Keys that nothing connects come first, grouped by
/// rule: one loop per rule is what makes a call cheap.
#[derive(Debug)]
pub(crate) struct Parcel {
    batch: Batch,
    /// Each place's position in the call.
    positions: Vec<usize>,
    /// Each position's place.
    order: Vec<usize>,
}

impl Parcel {
    pub(crate) fn new(batch: Batch) -> Self {
        let mut order: Vec<usize> = (0..batch.keys.len()).collect();
        order.sort_by_key(|place| (batch.keys[*place].connected, batch.keys[*place].price));
        let mut positions = vec![0; order.len()];
        for (position, place) in order.iter().enumerate() {
            positions[*place] = position;
        }
        Self { batch, positions, order }
    }

    pub(crate) fn crowds(&self) -> &[Crowd] {
        &self.batch.crowds
    }

    /// How many requests it has.
    #[cfg(test)]
    pub(crate) const fn requests(&self) -> usize {
        self.batch.requests
    }

    pub(crate) fn first(&self) -> Option<&Ask> {
        self.crowds().first().map(|crowd| &crowd.ask)
    }

    /// The one request, if it concerns keys that another limiter also writes.
    pub(crate) fn plain(&self) -> Option<&Ask> {
        self.first().filter(|ask| ask.is_plain())
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
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.order.iter().map(|place| &self.batch.keys[*place])
    }

    pub(crate) fn limit_of(&self, entry: &Entry) -> &Limit {
        &self.batch.prices[entry.price].0
    }

    /// Where an item's key is in the call.
    pub(crate) fn position_of(&self, item: &Item) -> usize {
        self.positions[item.place]
    }

    fn is_connected(&self, ask: &Ask) -> bool {
        ask.items().iter().any(|item| self.batch.keys[item.place].connected)
    }

    /// The script's first argument; see `request.lua`.
    pub(crate) fn argument(&self, now: Timestamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 8 * self.batch.crowds.len());
        pack::list(&mut out, self.batch.prices.len());
        for (limit, cost) in &self.batch.prices {
            rule::write(&mut out, limit, *cost, now);
        }
        self.write_runs(&mut out);
        self.write_phases(&mut out);
        let connected = self.entries().filter(|entry| entry.connected);
        write_unless_empty(&mut out, connected.map(|entry| entry.price as u64 + 1));
        self.write_requests(&mut out);
        out
    }

    /// The keys that nothing connects: how many there are of each rule, and how many requests each
    /// has, unless that is one for all of them.
    fn write_runs(&self, out: &mut Vec<u8>) {
        let alone = self.entries().filter(|entry| !entry.connected);
        let mut runs: SmallVec<[u64; 8]> = smallvec![0; self.batch.prices.len()];
        alone.clone().for_each(|entry| runs[entry.price] += 1);
        pack::list(out, runs.len());
        runs.into_iter().for_each(|run| pack::number(out, run));
        let several = alone.clone().any(|entry| entry.times > 1);
        write_unless_empty(out, alone.filter(|_| several).map(|entry| entry.times));
    }

    /// Nearly always, none has one.
    fn write_phases(&self, out: &mut Vec<u8>) {
        let staggered = self.batch.keys.iter().any(|entry| !entry.phase.is_zero());
        let phases = self.entries().filter(|_| staggered).map(|entry| entry.phase);
        write_unless_empty(out, phases.map(Span::as_micros));
    }

    fn write_requests(&self, out: &mut Vec<u8>) {
        let (mut requests, mut count) = (Vec::new(), 0);
        for crowd in self.crowds().iter().filter(|crowd| self.is_connected(&crowd.ask)) {
            for _ in 0..crowd.size {
                count += self.write_request(&crowd.ask, &mut requests);
            }
        }
        if count > 0 {
            pack::list(out, count);
            out.append(&mut requests);
        }
    }

    /// Writes one request, and returns how many numbers that took; see `connected.lua`.
    fn write_request(&self, ask: &Ask, out: &mut Vec<u8>) -> usize {
        match ask {
            Ask::Settle(items) => match items.as_slice() {
                [item] => self.write_item(item, out),
                items => {
                    pack::number(out, 0);
                    pack::number(out, items.len() as u64);
                    for item in items {
                        self.write_item(item, out);
                        pack::number(out, item.watch(items));
                    }
                    2 + 3 * items.len()
                }
            },
            Ask::Look(items) => {
                pack::negative(out, -3);
                pack::number(out, items.len() as u64);
                items.iter().fold(2, |count, item| count + self.write_item(item, out))
            }
            Ask::Refund(item) => {
                pack::negative(out, -1);
                self.write_item(item, out);
                pack::number(out, item.cost.get());
                4
            }
            Ask::Reset(item) => {
                pack::negative(out, -2);
                pack::number(out, self.position_of(item) as u64 + 1);
                2
            }
        }
    }

    fn write_item(&self, item: &Item, out: &mut Vec<u8>) -> usize {
        pack::number(out, self.position_of(item) as u64 + 1);
        pack::number(out, item.price as u64 + 1);
        2
    }

    /// The answer to each request, in order.
    pub(crate) fn answers(&self, reply: &Reply) -> Vec<Answer> {
        if let Some(ask) = self.plain() {
            return vec![plain::answer(ask, reply).unwrap_or_else(|| Err(misunderstood()))];
        }
        match Replay::new(self, reply) {
            Some(mut replay) => self.each().map(|ask| replay.answer(ask)).collect(),
            None => self.each().map(|_| Err(misunderstood())).collect(),
        }
    }

    /// The same answer for everybody.
    pub(crate) fn all(&self, error: &StoreError) -> Vec<Answer> {
        self.each().map(|_| Err(error.clone())).collect()
    }

    /// Every request, in order.
    fn each(&self) -> impl Iterator<Item = &Ask> {
        self.crowds().iter().flat_map(|crowd| std::iter::repeat_n(&crowd.ask, crowd.size))
    }
}

/// A list that need not be created in Redis if it has nothing in it.
fn write_unless_empty(out: &mut Vec<u8>, numbers: impl Iterator<Item = u64> + Clone) {
    match numbers.clone().count() {
        0 => pack::nothing(out),
        length => {
            pack::list(out, length);
            numbers.for_each(|number| pack::number(out, number));
        }
    }
}

fn misunderstood() -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, "the script's answer has another shape than ours")
}
