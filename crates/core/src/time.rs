//! Time as integers: microseconds, so that Rust and Lua compute the same instants.

use std::fmt;
use std::time::Duration;

use crate::CivilDate;

/// An instant: microseconds since the Unix epoch.
///
/// Core never reads a clock. The owner of the state also owns the time and passes it in, so any
/// trace can be replayed. A clock's values stay below 2^53 (the year 2255), which a Lua number and
/// a JSON number hold exactly.
///
/// ```
/// use tidegate::{Span, Timestamp};
///
/// let noon = Timestamp::from_secs(43_200);
/// assert_eq!(noon + Span::from_secs(60), Timestamp::from_secs(43_260));
/// // Looking back past the start of something is zero, never an underflow.
/// assert_eq!(noon.since(Timestamp::from_secs(50_000)), Span::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The epoch. A fresh state, in which nothing was counted yet, has this time.
    pub const ZERO: Self = Self(0);
    /// The latest instant of a clock: 2^53 - 1 microseconds. Only the constructors clamp to it; a
    /// sum can be later.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Clamps to [`Timestamp::MAX`].
    pub const fn from_micros(micros: u64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    /// Clamps to [`Timestamp::MAX`].
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_micros(secs.saturating_mul(MICROS_PER_SEC))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The instant in UTC, to the millisecond, in the form of RFC 3339.
    ///
    /// ```
    /// use tidegate::Timestamp;
    ///
    /// let leap_day = Timestamp::from_micros(1_709_208_000_567_890);
    /// assert_eq!(leap_day.rfc3339(), "2024-02-29T12:00:00.567Z");
    /// ```
    pub fn rfc3339(self) -> String {
        let millis = self.0 / 1_000;
        let (days, of_day) = (millis / 86_400_000, millis % 86_400_000);
        let CivilDate { year, month, day } = CivilDate::of_day(days.cast_signed());
        let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
    }

    /// How long after `earlier` this is; zero if it is not later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved back, stopping at the epoch.
    ///
    /// ```
    /// use tidegate_core::{Span, Timestamp};
    ///
    /// assert_eq!(Timestamp::from_secs(9).before(Span::from_secs(4)), Timestamp::from_secs(5));
    /// assert_eq!(Timestamp::from_secs(9).before(Span::from_days(1)), Timestamp::ZERO);
    /// ```
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// The start of the epoch-aligned window of length `window` that contains this instant.
    ///
    /// A window of no length has no start; the instant itself is returned.
    ///
    /// ```
    /// use tidegate_core::{Span, Timestamp};
    ///
    /// let start = Timestamp::from_secs(125).window_start(Span::from_secs(60));
    /// assert_eq!(start, Timestamp::from_secs(120));
    /// ```
    pub const fn window_start(self, window: Span) -> Self {
        match self.0.checked_rem(window.0) {
            Some(elapsed) => Self(self.0 - elapsed),
            None => self,
        }
    }
}

impl std::ops::Add<Span> for Timestamp {
    type Output = Self;

    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A length of time in microseconds.
///
/// ```
/// use tidegate::Span;
///
/// assert_eq!(Span::from_millis(1_500).as_secs_ceil(), 2);
/// assert_eq!("90s".parse::<Span>()?, Span::from_secs(90));
/// assert_eq!(Span::from_secs(90).to_string(), "90s");
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A span of milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// A span of seconds; saturates.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(MICROS_PER_SEC))
    }

    /// A span of 24-hour days; saturates.
    pub const fn from_days(days: u64) -> Self {
        Self::from_secs(days.saturating_mul(86_400))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Milliseconds, rounded up: a caller that waits this long has waited long enough.
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Seconds, rounded up, as `Retry-After` requires.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(MICROS_PER_SEC)
    }

    /// The span as it follows "per" or "in any": `minute` for exactly one minute, `10s` for a span
    /// that has no name.
    ///
    /// ```
    /// use tidegate_core::Span;
    ///
    /// assert_eq!(Span::from_secs(60).as_period().to_string(), "minute");
    /// assert_eq!(Span::from_secs(90).as_period().to_string(), "90s");
    /// ```
    pub fn as_period(self) -> impl fmt::Display {
        PeriodName(self)
    }

    /// The way people write it: whole seconds, rounded up; for a long span only the two largest
    /// units, also rounded up.
    ///
    /// ```
    /// use tidegate::Span;
    ///
    /// assert_eq!(Span::from_millis(8_500).roughly().to_string(), "9s");
    /// assert_eq!(Span::from_secs(3_897).roughly().to_string(), "1h5m");
    /// ```
    pub fn roughly(self) -> impl fmt::Display {
        RoughSpan(self.as_secs_ceil())
    }

    /// What remains after `other`; zero if nothing does.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl std::ops::Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        Self::from_micros(span.0)
    }
}

/// Rounds up to a whole microsecond; saturates.
impl From<Duration> for Span {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

/// The same as `Display`, so that a decision that is printed for debugging is readable.
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The largest unit that divides the span: `90s`, `1h`, `1500us`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = UNITS
            .iter()
            .rev()
            .find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit))
            .unwrap_or(&UNITS[0]);
        write!(f, "{}{name}", self.0 / unit)
    }
}

/// See [`Span::as_period`].
struct PeriodName(Span);

impl fmt::Display for PeriodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(span) = self;
        match PERIODS.iter().find(|(unit, _)| *unit == span.0) {
            Some((_, name)) => f.write_str(name),
            None => span.fmt(f),
        }
    }
}

/// Whole seconds; see [`Span::roughly`].
struct RoughSpan(u64);

impl fmt::Display for RoughSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(secs) = *self;
        let units = UNITS.iter().rev().map(|(micros, name)| (micros / MICROS_PER_SEC, name));
        let mut units =
            units.take_while(|(unit, _)| *unit > 0).skip_while(|(unit, _)| *unit > secs);
        let (Some((large, name)), small) = (units.next(), units.next()) else {
            return f.write_str("0s");
        };
        let Some((small, of_small)) = small else { return write!(f, "{secs}{name}") };
        let secs = secs.div_ceil(small).saturating_mul(small);
        write!(f, "{}{name}", secs / large)?;
        match secs % large / small {
            0 => Ok(()),
            rest => write!(f, "{rest}{of_small}"),
        }
    }
}

const MICROS_PER_SEC: u64 = 1_000_000;

/// Microseconds in each unit, smallest first.
const UNITS: [(u64, &str); 6] = [
    (1, "us"),
    (1_000, "ms"),
    (MICROS_PER_SEC, "s"),
    (60 * MICROS_PER_SEC, "m"),
    (3_600 * MICROS_PER_SEC, "h"),
    (86_400 * MICROS_PER_SEC, "d"),
];

/// What people call one of a unit.
const PERIODS: [(u64, &str); 4] = [
    (MICROS_PER_SEC, "second"),
    (60 * MICROS_PER_SEC, "minute"),
    (3_600 * MICROS_PER_SEC, "hour"),
    (86_400 * MICROS_PER_SEC, "day"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (secs, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_208_000, "2024-02-29T12:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_secs(secs).rfc3339(), expected);
        }
        assert_eq!(Timestamp::from_micros(1_234_567).rfc3339(), "1970-01-01T00:00:01.234Z");
    }

    #[test]
    fn windows_are_aligned_to_the_epoch() {
        let minute = Span::from_secs(60);
        assert_eq!(Timestamp::from_secs(59).window_start(minute), Timestamp::ZERO);
        assert_eq!(Timestamp::from_secs(60).window_start(minute), Timestamp::from_secs(60));
        assert_eq!(Timestamp::from_secs(7).window_start(Span::ZERO), Timestamp::from_secs(7));
    }

    #[test]
    fn a_wait_is_said_in_two_units_and_never_too_short() {
        for (secs, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (899, "14m59s"),
            (3_600, "1h"),
            (3_601, "1h1m"),
            (3_900, "1h5m"),
            (86_399, "24h"),
            (1_296_000, "15d"),
            (1_300_000, "15d2h"),
        ] {
            assert_eq!(Span::from_secs(secs).roughly().to_string(), text);
        }
        assert_eq!(Span::from_millis(1_001).roughly().to_string(), "2s");
        assert_eq!(Span::from_micros(u64::MAX).roughly().to_string(), "213503982d9h");
    }

    #[test]
    fn spans_print_in_their_largest_unit() {
        for (span, text) in [
            (Span::ZERO, "0us"),
            (Span::from_micros(1_500), "1500us"),
            (Span::from_millis(250), "250ms"),
            (Span::from_secs(90), "90s"),
            (Span::from_secs(120), "2m"),
            (Span::from_days(1), "1d"),
        ] {
            assert_eq!(span.to_string(), text);
        }
    }

    #[test]
    fn rounding_is_upwards() {
        assert_eq!(Span::from_micros(1).as_millis_ceil(), 1);
        assert_eq!(Span::from_micros(1_000_001).as_secs_ceil(), 2);
        assert_eq!(Span::from(Duration::from_nanos(1)).as_micros(), 1);
        assert_eq!(Span::from(Duration::MAX).as_micros(), u64::MAX);
    }
}
