//! The deny cache: repeats the store's denials without asking it, for as long as they hold.

mod counter_watches;
mod denial;
mod refund_stamps;
#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use tidegate_core::{Charge, Fingerprint, Span, Timestamp};
use tidegate_store::{Clock, SystemClock, Verdicts};

use self::counter_watches::CounterWatches;
use self::denial::CachedDenial;
pub(crate) use self::refund_stamps::DenyCacheMoment;
use self::refund_stamps::RefundStamps;
use crate::fingerprint_map::FingerprintMap;

/// Remembers which requests were denied, by which limit and until when.
///
/// Until then every request of at least the same cost would be denied too, whatever others do: a count
/// does not fall before its window ends, a bucket does not refill faster, a log's entries leave only by
/// age. So no request is denied that the store would admit, and a caller that keeps retrying does not
/// reach the store.
///
/// The reported wait is exact too, as far as this instance knows: a denial is forgotten when another
/// request takes units from its counter. Admissions by other instances are noticed after [`LONGEST`].
///
/// Exceptions: a changed limit does not match its old denials; a limit that is only a shadow by now
/// denies nothing; a refund or reset here makes the cache forget the denials of that counter; those of
/// other instances are noticed after [`LONGEST`]; limits that count denials are not cached.
#[derive(Debug)]
pub(crate) struct DenyCache<C = SystemClock> {
    clock: C,
    refunds: RefundStamps,
    watches: CounterWatches,
    shards: Vec<Mutex<DenyCacheShard>>,
}

/// A part of the cache under its own lock.
#[derive(Debug, Default)]
struct DenyCacheShard {
    denials: FingerprintMap<CachedDenial>,
    /// When expired denials were last dropped.
    swept: Timestamp,
}

/// The longest time that a denial is repeated without asking the store. Refunds by other instances take
/// effect here after this time.
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
        Self { clock, refunds: RefundStamps::new(), watches: CounterWatches::new(), shards }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The moment for [`recall`](Self::recall) and [`remember`](Self::remember). Must be taken before the
    /// store is moment.
    pub(crate) fn moment(&self, charges: &[Charge<'_>]) -> DenyCacheMoment {
        DenyCacheMoment { at: self.now(), stamp: self.refunds.stamp(charges) }
    }

    /// The verdicts, if the request is known to be denied.
    pub(crate) fn recall(&self, charges: &[Charge<'_>], now: DenyCacheMoment) -> Option<Verdicts> {
        let name = request_fingerprint(charges)?;
        let shard = self.shard(name).lock();
        let denial = shard.denials.get(&name)?;
        denial.is_untouched(&self.watches).then(|| denial.verdicts_at(charges, now))?
    }

    /// Remembers a denial by the store.
    pub(crate) fn remember(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        moment: DenyCacheMoment,
    ) {
        if charges.iter().any(|charge| charge.cost().is_peek() || counts_denied(charge)) {
            return;
        }
        let denial = CachedDenial::new(charges, verdicts, moment, LONGEST, &self.watches);
        if let (Some(denial), Some(name)) = (denial, request_fingerprint(charges)) {
            self.insert(name, denial);
        }
    }

    /// Records a request that the store admitted, whose answer arrived at `answered_at`.
    pub(crate) fn record_admitted(
        &self,
        charges: &[Charge<'_>],
        verdicts: &Verdicts,
        answered_at: Timestamp,
    ) {
        let each = charges.iter().zip(verdicts);
        let paid = each.filter(|(charge, verdict)| verdict.allowed && !charge.cost().is_peek());
        paid.for_each(|(charge, _)| self.watches.record_taken(charge.counter(), answered_at));
    }

    /// Forgets the denials of this charge's counter after a refund or reset.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        self.refunds.record(charge);
    }

    /// [`forget`](Self::forget) for a charge of a request that is being decided. Returns the request's
    /// moment with this refund included, but not the refunds of other requests since then.
    pub(crate) fn forget_since(
        &self,
        charge: &Charge<'_>,
        charges: &[Charge<'_>],
        moment: DenyCacheMoment,
    ) -> DenyCacheMoment {
        let stamp = moment.stamp.wrapping_add(self.refunds.record_among(charge, charges));
        DenyCacheMoment { stamp, ..moment }
    }

    /// Forgets all denials: another instance gave units back, or a limit or the plan changed.
    #[cfg(feature = "files")]
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

    /// Drops expired denials and returns whether there is room. Runs rarely, because it scans the shard.
    fn sweep(&mut self, now: Timestamp) -> bool {
        if now.since(self.swept) < SWEEP_EVERY {
            return false;
        }
        self.swept = now;
        self.denials.retain(|_, denial| now < denial.until);
        !self.is_full()
    }
}

/// A fingerprint of all counters of a request, and of its costs for limits whose denials depend on the
/// cost. `None` for a request without charges. A request with the same counters in another order is
/// another request.
fn request_fingerprint(charges: &[Charge<'_>]) -> Option<Fingerprint> {
    let (first, rest) = charges.split_first()?;
    Some(rest.iter().fold(charge_fingerprint(first), |name, charge| {
        mixed_fingerprint(name) ^ charge_fingerprint(charge)
    }))
}

fn charge_fingerprint(charge: &Charge<'_>) -> Fingerprint {
    // If only the store knows how long another cost has to wait, each cost has an entry of its own.
    if !charge.rule().limit.kind().knows_other_costs() {
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
