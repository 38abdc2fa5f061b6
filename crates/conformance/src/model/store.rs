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

    fn copy_of(&self, charge: &Charge<'_>) -> Box<dyn Model> {
        let limit = &charge.rule().limit;
        let Some(known) = self.models.get(&charge.counter()) else {
            return model(limit);
        };
        let mut copy = known.copy();
        copy.adopt(&limit.quota(), self.time(charge));
        copy
    }

    /// Plays the request on copies, one charge after the other, and keeps them if all passed.
    fn settle(&mut self, charges: &[Charge<'_>]) -> (bool, Verdicts) {
        let mut played: HashMap<Fingerprint, Box<dyn Model>> = HashMap::new();
        let (mut passes, mut verdicts) = (true, Verdicts::new());
        for charge in charges {
            let now = self.time(charge);
            let known = played.get(&charge.counter()).map(|model| model.copy());
            let mut model = known.unwrap_or_else(|| self.copy_of(charge));
            let mut verdict = model.probe(charge.cost(), now);
            passes &= verdict.allowed || !charge.rule().enforced;
            if charge.cost() > Cost::PEEK {
                if verdict.allowed {
                    model.commit(charge.cost(), now);
                    let left = model.probe(Cost::PEEK, now);
                    verdict = Verdict { allowed: true, retry_after: None, ..left };
                } else {
                    model.deny(charge.cost(), now);
                }
                played.insert(charge.counter(), model);
            }
            verdicts.push(verdict);
        }
        if passes {
            played.into_iter().for_each(|(counter, model)| self.keep(counter, model));
        } else {
            for (charge, verdict) in charges.iter().zip(&mut verdicts) {
                *verdict = self.deny(charge);
            }
        }
        (passes, verdicts)
    }

    /// The verdict of a charge whose request was denied, and what the denial leaves behind.
    fn deny(&mut self, charge: &Charge<'_>) -> Verdict {
        let (mut model, now) = (self.copy_of(charge), self.time(charge));
        let verdict = model.probe(charge.cost(), now);
        if charge.cost() > Cost::PEEK {
            model.deny(charge.cost(), now);
            self.keep(charge.counter(), model);
        }
        verdict
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
                model.adopt(&charge.rule().limit.quota(), now);
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
