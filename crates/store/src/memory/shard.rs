//! One shard: a table for each algorithm, behind one lock.

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
            /// The latest time at which anything here was decided.
            latest: Timestamp,
            $($field: StateTable<algorithm::$Name>,)*
        }

        impl MemoryShard {
            /// The time of a decision, given a reading taken before the shard was locked. Others
            /// may have decided at a later time since. If so, the clock is read again, so that a
            /// shard sees time go back only if the clock does.
            #[inline(always)]
            pub(super) fn time(&mut self, reading: Timestamp, clock: &impl Clock) -> Timestamp {
                let now = if reading >= self.latest { reading } else { clock.now() };
                self.latest = now;
                now
            }
        }

        /// Each method finds the table of the charge's algorithm and works on it there.
        impl MemoryShard {
            /// Decides for a key that is here; `None` if it is not. What the decision needs is
            /// passed in registers: packed into a ticket it would go through memory, and have to
            /// wait for it.
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

            pub(super) fn apply(&mut self, ticket: ChargeContext<'_>, out: &mut Verdicts) -> bool {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.apply(out),)*
                }
            }

            pub(super) fn has_live_slot(&mut self, ticket: ChargeContext<'_>) -> bool {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.has_live_slot(),)*
                }
            }

            pub(super) fn probe(&mut self, ticket: ChargeContext<'_>, cost: Cost) -> Verdict {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.probe(cost),)*
                }
            }

            pub(super) fn commit(&mut self, ticket: ChargeContext<'_>, cost: Cost) -> Verdict {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.commit(cost),)*
                }
            }

            pub(super) fn deny(&mut self, ticket: ChargeContext<'_>) {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.deny(),)*
                }
            }

            pub(super) fn refund(&mut self, ticket: ChargeContext<'_>) {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.refund(),)*
                }
            }

            pub(super) fn reset(&mut self, ticket: ChargeContext<'_>) {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(by) => TableAccount { table: &mut self.$field, by, ticket }.reset(),)*
                }
            }

            pub(super) fn forget_at(&self, ticket: ChargeContext<'_>) -> Option<Timestamp> {
                match &ticket.charge.rule().limit {
                    $(Limit::$Name(_) => self.$field.forget_at(ticket.key),)*
                }
            }

            /// Looks for dead keys of any algorithm, to make room for a new one.
            #[cold]
            pub(super) fn sweep(&mut self, upkeep: TableUpkeep<'_>) {
                $(self.$field.sweep(SWEPT_WHEN_FULL, upkeep);)*
            }
        }
    };
}

for_each_algorithm!(shard);

impl MemoryShard {
    /// Room for a key, if need be that of a dead one. A key that is here and alive needs none.
    pub(super) fn make_room<'a>(
        &mut self,
        ticket: ChargeContext<'a>,
    ) -> Result<Option<RoomClaim<'a>>, NoRoomError> {
        if self.has_live_slot(ticket) {
            return Ok(None);
        }
        // A dead key is as good as none, and its place may be needed.
        self.reset(ticket);
        let (capacity, pool) = (ticket.upkeep.capacity, ticket.key.pool());
        if ticket.charge.rule().limit.kind() == AlgorithmKind::SlidingLog
            && capacity.has_no_room_for_logs()
        {
            return Err(NoRoomError);
        }
        let claim = capacity.claim(pool).or_else(|NoRoomError| {
            self.sweep(ticket.upkeep);
            capacity.claim(pool)
        });
        claim.map(Some)
    }
}
