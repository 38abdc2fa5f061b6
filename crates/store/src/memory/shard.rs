//! One shard: a table for each algorithm, behind one lock.
//!
//! A shard does not know what its neighbours do: whoever needs several shards locks them in ascending order
//! (`ledger.rs`).

use tidegate_core::{
    AlgorithmKind, Charge, Cost, Fingerprint, Limit, Timestamp, Verdict, algorithm,
    for_each_algorithm,
};

use super::capacity::{MemoryCapacity, NoRoomError, RoomClaim};
use super::table::{StateTable, TableUpkeep};
use super::table_account::{ChargeContext, TableAccount};
use crate::{Clock, Verdicts};

/// Slots examined in each table when a new key finds the store full.
const SWEPT_WHEN_FULL: usize = 16;

macro_rules! shard {
    ($($Name:ident $field:ident $name:literal,)*) => {
        /// States of all algorithms, each in a table of its own type: no tags, no boxes.
        #[derive(Debug, Default)]
        pub(super) struct MemoryShard {
            /// The latest time at which a charge was settled here.
            latest: Timestamp,
            $($field: StateTable<algorithm::$Name>,)*
        }

        impl MemoryShard {
            /// The time of a decision, given a reading taken before the shard was locked. Another
            /// thread may have settled at a later time since. If so, the clock is read again, so that
            /// a shard sees time go back only if the clock does.
            #[inline(always)]
            pub(super) fn time(&mut self, reading: Timestamp, clock: &impl Clock) -> Timestamp {
                let now = if reading >= self.latest { reading } else { clock.now() };
                self.latest = now;
                now
            }
        }

        /// Each method finds the table of the charge's algorithm and works on it there.
        impl MemoryShard {
            /// Settles a charge of a known key; `None` if the key is not here. The arguments are passed
            /// in registers: packed into a context they would go through memory, which is slower.
            #[inline(always)]
            pub(super) fn apply_known(
                &mut self,
                charge: &Charge<'_>,
                key: Fingerprint,
                now: Timestamp,
                capacity: &MemoryCapacity,
                out: &mut Verdicts,
            ) -> Option<bool> {
                let cost = charge.cost();
                match &charge.rule().limit {
                    $(Limit::$Name(by) => self.$field.apply_known(by, key, cost, now, capacity, out),)*
                }
            }

            pub(super) fn apply(&mut self, context: ChargeContext<'_>, out: &mut Verdicts) -> bool {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.apply(out),)*
                }
            }

            pub(super) fn has_live_slot(&mut self, context: ChargeContext<'_>) -> bool {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.has_live_slot(),)*
                }
            }

            pub(super) fn probe(&mut self, context: ChargeContext<'_>, cost: Cost) -> Verdict {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.probe(cost),)*
                }
            }

            pub(super) fn commit(&mut self, context: ChargeContext<'_>, cost: Cost) -> Verdict {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.commit(cost),)*
                }
            }

            pub(super) fn deny(&mut self, context: ChargeContext<'_>) {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.deny(),)*
                }
            }

            pub(super) fn refund(&mut self, context: ChargeContext<'_>) {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.refund(),)*
                }
            }

            pub(super) fn reset(&mut self, context: ChargeContext<'_>) {
                match &context.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, context }.reset(),)*
                }
            }

            pub(super) fn forget_at(&self, context: ChargeContext<'_>) -> Option<Timestamp> {
                match &context.charge.rule().limit {
                    $(Limit::$Name(_) => self.$field.forget_at(context.key),)*
                }
            }

            /// Drops dead keys of all algorithms, to make room for a new one.
            #[cold]
            pub(super) fn sweep(&mut self, upkeep: TableUpkeep<'_>) {
                $(self.$field.sweep(SWEPT_WHEN_FULL, upkeep);)*
            }
        }
    };
}

for_each_algorithm!(shard);

impl MemoryShard {
    /// Claims a slot for a new key, if necessary after a sweep. A live key needs no claim.
    pub(super) fn make_room<'a>(
        &mut self,
        context: ChargeContext<'a>,
    ) -> Result<Option<RoomClaim<'a>>, NoRoomError> {
        if self.has_live_slot(context) {
            return Ok(None);
        }
        // A dead key counts as new, and its slot may be needed.
        self.reset(context);
        let (capacity, pool) = (context.upkeep.capacity, context.key.pool());
        if context.charge.rule().limit.kind() == AlgorithmKind::SlidingLog
            && capacity.has_no_room_for_logs()
        {
            return Err(NoRoomError);
        }
        let claim = capacity.claim(pool).or_else(|NoRoomError| {
            self.sweep(context.upkeep);
            capacity.claim(pool)
        });
        claim.map(Some)
    }
}
