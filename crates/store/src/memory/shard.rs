//! One shard: a table for each algorithm, behind one lock.

use tidegate_core::{Cost, Limit, Timestamp, Verdict, algorithm, for_each_algorithm};

use super::account::{Account, Ticket};
use super::capacity::{Capacity, Full};
use super::table::Table;

/// Looked at in each table when a new key finds the store full.
const SWEPT_WHEN_FULL: usize = 16;

macro_rules! shard {
    ($($Name:ident $field:ident $name:literal,)*) => {
        /// States of all algorithms, each in a table of its own type: no tags, no boxes.
        #[derive(Debug, Default)]
        pub(super) struct Shard {
            $($field: Table<algorithm::$Name>,)*
        }

        /// Each method finds the table of the charge's algorithm and works on it there.
        impl Shard {
            #[inline]
            pub(super) fn decide(&mut self, ticket: Ticket<'_>) -> Result<Verdict, Full> {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(by) => Account { table: &mut self.$field, by, ticket }.decide(),)*
                }
            }

            pub(super) fn contains(&self, ticket: Ticket<'_>) -> bool {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(_) => self.$field.contains(ticket.counter),)*
                }
            }

            pub(super) fn probe(&mut self, ticket: Ticket<'_>, cost: Cost) -> Verdict {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(by) => Account { table: &mut self.$field, by, ticket }.probe(cost),)*
                }
            }

            pub(super) fn commit(&mut self, ticket: Ticket<'_>) -> Verdict {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(by) => Account { table: &mut self.$field, by, ticket }.commit(),)*
                }
            }

            pub(super) fn deny(&mut self, ticket: Ticket<'_>) {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(by) => Account { table: &mut self.$field, by, ticket }.deny(),)*
                }
            }

            pub(super) fn refund(&mut self, ticket: Ticket<'_>) {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(by) => Account { table: &mut self.$field, by, ticket }.refund(),)*
                }
            }

            pub(super) fn reset(&mut self, ticket: Ticket<'_>) {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(by) => Account { table: &mut self.$field, by, ticket }.reset(),)*
                }
            }

            pub(super) fn forget_at(&self, ticket: Ticket<'_>) -> Option<Timestamp> {
                match &ticket.charge.rule.limit {
                    $(Limit::$Name(_) => self.$field.forget_at(ticket.counter),)*
                }
            }

            /// Looks for dead keys of any algorithm, to make room for a new one.
            #[cold]
            pub(super) fn sweep(&mut self, now: Timestamp, capacity: &Capacity) {
                $(
                    let before = self.$field.len();
                    self.$field.sweep(SWEPT_WHEN_FULL, now);
                    capacity.resized(before, self.$field.len());
                )*
            }

            /// Bytes outside the tables: the logs.
            pub(super) fn heap_bytes(&self) -> usize {
                0 $(+ self.$field.heap_bytes())*
            }
        }
    };
}

for_each_algorithm!(shard);
