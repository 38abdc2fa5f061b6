//! Reads counter states in the form in which the scripts report them.

use tidegate_core::{Cost, CounterState, Limit, Timestamp};

/// A log that decides this cost as the whole log would, made from its count, its newest instant, and
/// the instant whose expiry makes room. `None` if the limit is not a log.
pub(crate) fn log_from_report(
    limit: &Limit,
    cost: Cost,
    count: u64,
    [newest, makes_room]: [Timestamp; 2],
) -> Option<CounterState> {
    let Limit::SlidingLog(by) = limit else { return None };
    let excess = count.saturating_add(cost.get()).saturating_sub(limit.capacity());
    // No expiry makes room for a cost above the limit.
    let leaving = if excess <= count { excess } else { 0 };
    Some(CounterState::SlidingLog(by.state([(makes_room, leaving), (newest, count - leaving)])))
}
