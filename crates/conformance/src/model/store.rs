//! A store of models: no shards, no bounds, no expiry; one lock.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tidegate_core::{Charge, Cost, Fingerprint, Span, Timestamp, Verdict};
use tidegate_store::Verdicts;

use super::{Model, model};
use crate::Subject;

/// Decides by the models. Itself a [`Subject`], so that the laws are tested on the models too.
#[derive(Default)]
pub struct ModelStore(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    now: Timestamp,
    models: HashMap<Fingerprint, Box<dyn Model>>,
}

impl Inner {
    fn time(&self, charge: &Charge<'_>) -> Timestamp {
        self.now + charge.phase()
    }

    /// The model of a charge's counter, as its limit sees it.
    fn copy_of(&self, charge: &Charge<'_>) -> Box<dyn Model> {
        let limit = &charge.rule().limit;
        let Some(known) = self.models.get(&charge.counter()) else {
            return model(limit);
        };
        let mut copy = known.copy();
        copy.adopt(limit);
        copy
    }

    /// Checks whether each charge fits, together with the earlier ones to its counter that do. If no
    /// enforced charge denies, those that fit are committed one after the other.
    fn settle(&mut self, charges: &[Charge<'_>]) -> (bool, Verdicts) {
        let mut probed = Verdicts::new();
        for (index, charge) in charges.iter().enumerate() {
            let earlier = charges[..index].iter().zip(&probed);
            let same = earlier
                .filter(|(other, verdict)| verdict.allowed && other.counter() == charge.counter());
            let units: u64 = same.map(|(other, _)| other.cost().get()).sum();
            let cost = Cost::new(units + charge.cost().get()).unwrap();
            probed.push(self.copy_of(charge).probe(cost, self.time(charge)));
        }
        let is_shadow = |index: usize| !charges[index].rule().enforced;
        let passes = (0..charges.len()).all(|index| probed[index].allowed || is_shadow(index));
        // The shadow limits of one policy and caller pay together, or not at all.
        let pays = |index: usize| {
            let siblings = (0..charges.len()).filter(|other| {
                is_shadow(*other)
                    && is_shadow(index)
                    && charges[*other].policy() == charges[index].policy()
                    && charges[*other].subject() == charges[index].subject()
            });
            probed[index].allowed && siblings.clone().all(|other| probed[other].allowed)
        };
        let told = charges.iter().enumerate().map(|(index, charge)| {
            if charge.cost().is_peek() {
                return probed[index];
            }
            let (mut model, now) = (self.copy_of(charge), self.time(charge));
            if passes && pays(index) {
                model.commit(charge.cost(), now);
            } else {
                model.deny(charge.cost(), now);
            }
            let left = model.probe(Cost::PEEK, now);
            self.keep(charge.counter(), model);
            if passes && pays(index) {
                Verdict { allowed: true, retry_after: None, ..left }
            } else if charge.rule().limit.counts_denied() {
                Verdict { remaining: left.remaining, ..probed[index] }
            } else {
                probed[index]
            }
        });
        (passes, told.collect())
    }

    /// A key that was only peeked at, or denied, stays unknown.
    fn keep(&mut self, counter: Fingerprint, model: Box<dyn Model>) {
        if self.models.contains_key(&counter) || model.forget_at() > Timestamp::ZERO {
            self.models.insert(counter, model);
        }
    }
}

impl ModelStore {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelStore").finish_non_exhaustive()
    }
}

impl Subject for ModelStore {
    fn set_now(&self, now: Timestamp) {
        self.with(|inner| inner.now = now);
    }

    fn settle(&self, charges: &[Charge<'_>]) -> (bool, Verdicts) {
        self.with(|inner| inner.settle(charges))
    }

    fn refund(&self, charge: &Charge<'_>) {
        self.with(|inner| {
            let now = inner.time(charge);
            if let Some(model) = inner.models.get_mut(&charge.counter()) {
                model.adopt(&charge.rule().limit);
                model.refund(charge.cost(), now);
            }
        });
    }

    fn reset(&self, charge: &Charge<'_>) {
        self.with(|inner| inner.models.remove(&charge.counter()));
    }

    fn time_to_live(&self, charge: &Charge<'_>) -> Option<Span> {
        self.with(|inner| {
            let model = inner.models.get(&charge.counter())?;
            Some(model.forget_at().since(inner.time(charge)))
        })
    }
}
