//! A check for stores that forward to another one: most of what a store can do has a default, so whatever
//! a forwarder forgets is lost without a word.

use std::future::{Future, Pending};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tidegate_core::{Charge, Cost, Fingerprint, Rule, Span, Timestamp, Verdict};
use tidegate_store::{
    Promise, SettleResult, Store, StoreError, StoreHealth, StoreProfile, StoreUsage, Verdicts,
};

/// A store with answers that are nobody's defaults.
#[derive(Debug, Default)]
pub struct ForwardingProbe {
    deadlines: Mutex<Vec<Option<Span>>>,
    refunds: AtomicU64,
    resets: AtomicU64,
}

const PROFILE: StoreProfile =
    StoreProfile { shared_secret: Some([7; 16]), is_stepwise: true, names_keys: true };
const HEALTH: StoreHealth =
    StoreHealth { is_available: false, round_trip: Some(Span::from_millis(7)) };
const DEADLINE: Span = Span::from_millis(77);

impl ForwardingProbe {
    fn record(&self, deadline: Option<Span>) {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner).push(deadline);
    }
}

fn verdict(charge: &Charge<'_>) -> Verdict {
    charge.rule().limit.probe_fresh(charge.cost(), Timestamp::ZERO)
}

impl Store for ForwardingProbe {
    fn profile(&self) -> StoreProfile {
        PROFILE
    }

    fn settle<'a>(
        &'a self,
        charges: &'a [Charge<'a>],
        deadline: Option<Span>,
        out: &'a mut Verdicts,
    ) -> Promise<SettleResult, impl Future<Output = SettleResult> + Send + 'a> {
        self.record(deadline);
        out.extend(charges.iter().map(verdict));
        Promise::<_, Pending<_>>::Ready(Ok(true))
    }

    fn settle_each<'c>(
        &self,
        charges: impl IntoIterator<Item = Charge<'c>>,
        mut report: impl FnMut(&Charge<'c>, &Verdict),
    ) -> bool {
        charges.into_iter().for_each(|charge| report(&charge, &verdict(&charge)));
        true
    }

    async fn refund(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        self.refunds.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn reset(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        self.resets.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn set_deadline(&self, longest: Span) {
        self.record(Some(longest));
    }

    fn health(&self) -> StoreHealth {
        HEALTH
    }

    async fn usage(&self) -> Result<StoreUsage, StoreError> {
        Ok(StoreUsage { keys: Some(7), ..StoreUsage::default() })
    }

    fn overflowed_of(&self, _: &Rule) -> Option<u64> {
        Some(7)
    }
}

/// Asserts that the store that `wrap` makes of the probe does everything that the probe does, and that an
/// answer that is there at once stays so.
pub fn check_forwarding<S: Store>(wrap: impl FnOnce(Arc<ForwardingProbe>) -> S) {
    let probe = Arc::new(ForwardingProbe::default());
    let store = wrap(Arc::clone(&probe));
    assert_eq!(store.profile(), PROFILE);
    assert_eq!(store.health(), HEALTH);
    assert_eq!(now(store.usage()).ok().and_then(|usage| usage.keys), Some(7));

    let limit = "7/hour".parse().unwrap_or_else(|error| panic!("{error}"));
    let rule = Rule { id: Fingerprint::new(7, 7), limit, enforced: true, staggered: false };
    let charge = Charge::new(Fingerprint::new(8, 8), Cost::ONE, &rule);
    assert_eq!(store.overflowed_of(&rule), Some(7));
    let mut verdicts = Verdicts::new();
    let settled = store.settle(&[charge], Some(DEADLINE), &mut verdicts).ready();
    assert!(matches!(settled, Some(Ok(true))), "an answer that is there needs no future");
    let mut reported = Verdicts::new();
    assert!(store.settle_each([charge, charge], |_, verdict| reported.push(*verdict)));
    assert_eq!((verdicts.len(), reported.len()), (1, 2));
    assert!(now(store.refund(&charge)).is_ok() && now(store.reset(&charge)).is_ok());
    store.set_deadline(DEADLINE);

    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((count(&probe.refunds), count(&probe.resets)), (1, 1));
    let deadlines = probe.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(deadlines[..], [Some(DEADLINE); 2]);
}

/// The output of a future that waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the probe answers at once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_store_does_all_that_the_store_does() {
        check_forwarding(|probe| probe);
    }
}
