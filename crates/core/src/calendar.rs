//! Windows that follow the calendar instead of the clock, in UTC.

use std::fmt;

use crate::{CivilDate, Span, Timestamp};

/// A day, week or month of the calendar, in UTC. Weeks begin on Mondays.
///
/// ```
/// use tidegate::{CalendarPeriod, Timestamp};
///
/// let leap_day = Timestamp::from_secs(1_709_208_000); // 2024-02-29 12:00
/// let march = Timestamp::from_secs(1_709_251_200);
/// assert_eq!(CalendarPeriod::Month.end(leap_day), march);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarPeriod {
    /// Midnight to midnight.
    Day,
    /// Monday to Monday.
    Week,
    /// The first of one month to the first of the next.
    Month,
}

impl CalendarPeriod {
    /// All periods, shortest first.
    pub const ALL: &'static [Self] = &[Self::Day, Self::Week, Self::Month];

    /// The name in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "calendar-day",
            Self::Week => "calendar-week",
            Self::Month => "calendar-month",
        }
    }

    /// The longest that a period of this kind can last.
    ///
    /// A store that keeps a counter for this long after its last request never drops a live one.
    pub const fn longest(self) -> Span {
        match self {
            Self::Day => Span::from_days(1),
            Self::Week => Span::from_days(7),
            Self::Month => Span::from_days(31),
        }
    }

    /// When the period that contains `now` ends.
    ///
    /// The end is exclusive: an instant that is exactly midnight belongs to the day that begins.
    ///
    /// ```
    /// use tidegate_core::{CalendarPeriod, Span, Timestamp};
    ///
    /// let midnight = Timestamp::from_secs(86_400);
    /// assert_eq!(CalendarPeriod::Day.end(midnight), midnight + Span::from_days(1));
    /// ```
    pub fn end(self, now: Timestamp) -> Timestamp {
        let day = now.as_micros() / MICROS_PER_DAY;
        let next = match self {
            Self::Day => day + 1,
            // Day 0 was a Thursday.
            Self::Week => day + 7 - (day + 3) % 7,
            Self::Month => first_of_next_month(day),
        };
        Timestamp::from_micros(next * MICROS_PER_DAY)
    }
}

impl fmt::Display for CalendarPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The day, counted from the epoch, on which the month after the month of `day` begins.
const fn first_of_next_month(day: u64) -> u64 {
    let date = CivilDate::of_day(day.cast_signed());
    date.next_month().days_since_epoch().cast_unsigned()
}

const MICROS_PER_DAY: u64 = 86_400_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// The month lengths by the usual leap year rule.
    fn month_lengths() -> impl Iterator<Item = u64> {
        (1970_u64..2240).flat_map(|year| {
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let february = if leap { 29 } else { 28 };
            [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
        })
    }

    #[test]
    fn every_day_of_270_years_is_in_its_month() {
        let mut first = 0;
        for length in month_lengths() {
            for day in first..first + length {
                assert_eq!(first_of_next_month(day), first + length, "day {day}");
            }
            first += length;
        }
    }

    #[test]
    fn weeks_begin_on_mondays() {
        // 1970-01-05 was the first Monday.
        let monday = 4 * 86_400;
        for second in [0, monday - 1] {
            let end = CalendarPeriod::Week.end(Timestamp::from_secs(second));
            assert_eq!(end, Timestamp::from_secs(monday));
        }
        let end = CalendarPeriod::Week.end(Timestamp::from_secs(monday));
        assert_eq!(end, Timestamp::from_secs(monday + 7 * 86_400));
    }

    #[test]
    fn no_period_lasts_longer_than_its_maximum() {
        for calendar in CalendarPeriod::ALL {
            for hour in 0..20_000_u64 {
                let now = Timestamp::from_secs(hour * 5_000);
                let left = calendar.end(now).since(now);
                assert!(!left.is_zero() && left <= calendar.longest());
            }
            // The latest time must not panic.
            assert_eq!(calendar.end(Timestamp::MAX), Timestamp::MAX);
        }
    }
}
