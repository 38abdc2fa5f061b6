//! Reads counter states in the form in which the scripts store them.

use smallvec::SmallVec;
use tidegate_core::algorithm::{FixedWindow, SlidingWindow, TokenBucket};
use tidegate_core::{Cost, CounterState, Limit, Span, Timestamp, text};

use crate::rule::{half_scale, scale};

/// The state in a stored value; `None` if no script of ours wrote it.
pub(crate) fn read(limit: &Limit, raw: &[u8]) -> Option<CounterState> {
    match limit {
        Limit::FixedWindow(_) => {
            let (end, count) = match raw {
                [b'w', rest @ ..] if rest.len() == 14 => (number(rest, 0, 7), number(rest, 7, 7)),
                _ => return window_from_number(limit, whole(raw)?),
            };
            Some(CounterState::FixedWindow(FixedWindow::state(instant(end), count)))
        }
        Limit::SlidingWindow(_) => {
            if let Some(number) = whole(raw) {
                return window_from_number(limit, number);
            }
            let (until, previous, current) = three(raw)?;
            Some(CounterState::SlidingWindow(SlidingWindow::state(until, previous, current)))
        }
        Limit::TokenBucket(_) => {
            let (full_at, rest, pace) = match bucket(raw) {
                Some((full_at, pace)) => (full_at, 0, pace),
                None => {
                    let (full_at, rest, code) = three(&without_rounding(raw))?;
                    (full_at, rest, pace(raw.len(), code))
                }
            };
            Some(CounterState::TokenBucket(TokenBucket::state(full_at, rest, pace)))
        }
        // A log stays where it is; the script reports what a verdict needs.
        Limit::SlidingLog(_) => None,
    }
}

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

/// A window as one integer: its index, scaled, and its counts.
pub(crate) fn window_from_number(limit: &Limit, number: u64) -> Option<CounterState> {
    let window = limit.quota().window().as_micros();
    if matches!(limit, Limit::SlidingWindow(_)) {
        let scale = half_scale(window);
        let until = instant((number / scale / scale).checked_mul(window)?);
        let (previous, current) = (number / scale % scale, number % scale);
        return Some(CounterState::SlidingWindow(SlidingWindow::state(until, previous, current)));
    }
    let (index, count) = (number / scale(window), number % scale(window));
    let end = index.checked_mul(window)?;
    Some(CounterState::FixedWindow(FixedWindow::state(instant(end), count)))
}

/// A bucket as one integer: when it is full, and its pace; see `bucket.lua`.
fn bucket(raw: &[u8]) -> Option<(Timestamp, u64)> {
    let number = digits(raw).filter(|_| (16..20).contains(&raw.len()))?;
    let pace = match number % 10_000 % 1_250 {
        rate @ ..625 => rate,
        other => (((other - 625) / 89 + 1) << 50) | ((other - 625) % 89),
    };
    Some((instant(SINCE + number / 10_000), pace))
}

/// The pace in a short state, where the class is above 13 or 29 bits of rate.
const fn pace(length: usize, code: u64) -> u64 {
    let bits = match length {
        11 => 13,
        15 => 29,
        _ => return code,
    };
    ((code >> bits) << 50) | (code & ((1 << bits) - 1))
}

/// The beginning of 2025, in microseconds.
const SINCE: u64 = 1_735_689_600_000_000;

/// A bucket without the rounding of its time to live, which `bucket.lua` keeps in the first four bits
/// of every state but the longest.
fn without_rounding(raw: &[u8]) -> SmallVec<[u8; 24]> {
    let mut raw = SmallVec::from_slice(raw);
    if let (11 | 15, Some(head)) = (raw.len(), raw.first_mut()) {
        *head &= 0xf;
    }
    raw
}

/// What `whole` in `arithmetic.lua` reads: a number that Lua can represent exactly.
fn whole(raw: &[u8]) -> Option<u64> {
    digits(raw).filter(|number| *number < 1 << 53)
}

/// A number as INCRBY writes it.
fn digits(raw: &[u8]) -> Option<u64> {
    text::digits(raw).filter(|_| raw.first() != Some(&b'0'))
}

/// Reads what `pack_three` in `arithmetic.lua` produces: an instant, and two numbers of two, four or
/// seven bytes.
fn three(raw: &[u8]) -> Option<(Timestamp, u64, u64)> {
    let width = match raw.len() {
        11 => 2,
        15 => 4,
        21 => 7,
        _ => return None,
    };
    let instant = instant(number(raw, 0, 7));
    Some((instant, number(raw, 7, width), number(raw, 7 + width, width)))
}

/// The end of a window may lie past the latest time at which anything is decided.
fn instant(micros: u64) -> Timestamp {
    Timestamp::ZERO + Span::from_micros(micros)
}

fn number(raw: &[u8], from: usize, width: usize) -> u64 {
    let bytes = raw.get(from..from + width).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
