//! Days of the Gregorian calendar.

/// A day of the Gregorian calendar.
///
/// ```
/// use tidegate_core::CivilDate;
///
/// let leap_day = CivilDate { year: 2024, month: 2, day: 29 };
/// assert_eq!(leap_day.days_since_epoch(), 19_782);
/// assert_eq!(CivilDate::of_day(19_782), leap_day);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CivilDate {
    /// The year.
    pub year: i64,
    /// From 1 for January.
    pub month: u8,
    /// From 1.
    pub day: u8,
}

// In a calendar whose years begin in March, the leap day is the last day of the year, and month lengths
// follow a straight line: (153 m + 2) / 5 days lie before month m.
impl CivilDate {
    /// The date so many days after the first of January 1970.
    pub const fn of_day(days: i64) -> Self {
        let days = days + DAYS_BEFORE_EPOCH;
        let (era, day) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + (month <= 2) as i64;
        Self { year, month: month as u8, day: day as u8 }
    }

    /// The inverse. A day beyond the end of its month is a day of the next.
    pub const fn days_since_epoch(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let month = (self.month as i64 + 9) % 12;
        let day_of_year = (153 * month + 2) / 5 + self.day as i64 - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_EPOCH
    }

    /// The first day of the next month.
    pub(crate) const fn next_month(self) -> Self {
        match self.month {
            12 => Self { year: self.year + 1, month: 1, day: 1 },
            month => Self { year: self.year, month: month + 1, day: 1 },
        }
    }
}

/// From the first of March of the year 0 to the epoch.
const DAYS_BEFORE_EPOCH: i64 = 719_468;
/// The calendar repeats every 400 years.
const DAYS_PER_ERA: i64 = 146_097;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_are_inverse() {
        let mut before = CivilDate::of_day(-800_001);
        for days in -800_000..800_000 {
            let date = CivilDate::of_day(days);
            assert!(before < date && date.days_since_epoch() == days, "{date:?}");
            before = date;
        }
        assert_eq!(CivilDate::of_day(0), CivilDate { year: 1970, month: 1, day: 1 });
    }
}
