//! Denials that need no store: exact, for as long as they last.

mod counter_watches;
mod denial;
mod refund_stamps;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use tidegate_core::{Charge, Fingerprint, Span, Timestamp};
use tidegate_store::{Clock, SystemClock, Verdicts};

use self::counter_watches::CounterWatches;
use self::denial::{CachedDenial, depends_on_cost};
pub(crate) use self::refund_stamps::DenyCacheMoment;
use self::refund_stamps::RefundStamps;
use crate::fingerprint_map::FingerprintMap;

/// Remembers who was denied, by which limit and until when.
///
/// Until then whatever costs as much would be denied too, whatever others do: a count does not
/// fall before its window is over, a bucket does not fill faster, a log's entries leave only by
/// age. So nobody is denied who would have passed, and whoever hammers never reaches the store.
///
/// The wait that is told is exact too, as far as this instance knows: a denial is forgotten when
/// another request takes something from its counter. What other instances admit is seen after [`LONGEST`].
///
/// Exceptions: a limit that has changed is another limit, and is compared; one that is only watched by
/// now denies nobody; what is given back or forgotten here makes the denials of that counter forgotten;
/// what other instances give back is seen after [`LONGEST`]; limits that count denials are left out.
#[derive(Debug)]
pub(crate) struct DenyCache<C = SystemClock> {
    clock: C,
    refunds: RefundStamps,
    leftovers: CounterWatches,
    shards: Vec<Mutex<DenyCacheShard>>,
}

#[derive(Debug, Default)]
struct DenyCacheShard {
    denials: FingerprintMap<CachedDenial>,
    /// When those that were over were last dropped.
    swept: Timestamp,
}

/// For how long a denial is believed at most: so long does it take to see what other instances
/// gave back.
const LONGEST: Span = Span::from_secs(1);

const SHARDS: usize = 16;
const DENIALS_PER_SHARD: usize = 8_192;
const SWEEP_EVERY: Span = Span::from_millis(100);

impl DenyCache {
    pub(crate) fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

impl<C: Clock> DenyCache<C> {
    pub(crate) fn with_clock(clock: C) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { clock, refunds: RefundStamps::new(), leftovers: CounterWatches::new(), shards }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What [`recall`](Self::recall) and [`remember`](Self::remember) want to know: to be taken before
    /// the store is asked.
    pub(crate) fn moment(&self, charges: &[Charge<'_>]) -> DenyCacheMoment {
        DenyCacheMoment { at: self.now(), stamp: self.refunds.stamp(charges) }
    }

    /// The verdicts, if the request is known to be denied.
    pub(crate) fn recall(&self, charges: &[Charge<'_>], now: DenyCacheMoment) -> Option<Verdicts> {
        let name = request_fingerprint(charges)?;
        let shard = self.shard(name).lock();
        let denial = shard.denials.get(&name)?;
        denial.is_untouched(&self.leftovers).then(|| denial.verdicts_at(charges, now))?
    }

    /// Takes note of a denial by the store.
    pub(crate) fn remember(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        asked: DenyCacheMoment,
    ) {
        if charges.iter().any(|charge| charge.cost().is_peek() || counts_denied(charge)) {
            return;
        }
        let denial = CachedDenial::new(charges, verdicts, asked, LONGEST, &self.leftovers);
        if let (Some(denial), Some(name)) = (denial, request_fingerprint(charges)) {
            self.insert(name, denial);
        }
    }

    /// Takes note of a request that the store let pass, as was heard at this time.
    pub(crate) fn record_admitted(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        heard: Timestamp,
    ) {
        let each = charges.iter().zip(verdicts);
        let paid = each.filter(|(charge, said)| said.allowed && !charge.cost().is_peek());
        paid.for_each(|(charge, _)| self.leftovers.record_taken(charge.counter(), heard));
    }

    /// Something was given back to this charge's counter, or it was forgotten.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        self.refunds.record(charge);
    }

    /// The same for one of the charges of a request. Its moment, as if that had been known by then; what
    /// others give back meanwhile is not.
    pub(crate) fn forget_since(
        &self,
        charge: &Charge<'_>,
        charges: &[Charge<'_>],
        asked: DenyCacheMoment,
    ) -> DenyCacheMoment {
        let stamp = asked.stamp.wrapping_add(self.refunds.record_among(charge, charges));
        DenyCacheMoment { stamp, ..asked }
    }

    /// Something was given back, or another limit was set, elsewhere; or there is another plan.
    pub(crate) fn forget_all(&self) {
        self.refunds.record_all();
    }

    fn insert(&self, name: Fingerprint, denial: CachedDenial) {
        let mut shard = self.shard(name).lock();
        if !shard.is_full() || shard.denials.contains_key(&name) || shard.sweep(denial.at()) {
            shard.denials.insert(name, denial);
        }
    }

    fn shard(&self, name: Fingerprint) -> &Mutex<DenyCacheShard> {
        &self.shards[name.low() as usize % SHARDS]
    }
}

impl DenyCacheShard {
    fn is_full(&self) -> bool {
        self.denials.len() >= DENIALS_PER_SHARD
    }

    /// Drops what is over, and says whether that made room. Seldom, since it looks at everything.
    fn sweep(&mut self, now: Timestamp) -> bool {
        if now.since(self.swept) < SWEEP_EVERY {
            return false;
        }
        self.swept = now;
        self.denials.retain(|_, denial| now < denial.until);
        !self.is_full()
    }
}

/// One name for all counters of a request, and for its cost where a denial of another cost tells
/// nothing of it; `None` when there are none. A request with the same counters in another order is
/// another request.
fn request_fingerprint(charges: &[Charge<'_>]) -> Option<Fingerprint> {
    let (first, rest) = charges.split_first()?;
    Some(rest.iter().fold(charge_fingerprint(first), |name, charge| {
        mixed_fingerprint(name) ^ charge_fingerprint(charge)
    }))
}

fn charge_fingerprint(charge: &Charge<'_>) -> Fingerprint {
    if depends_on_cost(&charge.rule().limit) {
        let cost = Fingerprint::new(charge.cost().get(), charge.cost().get());
        mixed_fingerprint(cost) ^ charge.counter()
    } else {
        charge.counter()
    }
}

fn mixed_fingerprint(name: Fingerprint) -> Fingerprint {
    let high = name.high().rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Fingerprint::new(high, name.low().rotate_left(11))
}

pub(crate) fn counts_denied(charge: &Charge<'_>) -> bool {
    charge.rule().limit.counts_denied()
}
