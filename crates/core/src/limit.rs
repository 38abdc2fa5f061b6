//! A limit: a quota with its algorithm.

use std::fmt;
use std::str::FromStr;

use crate::algorithm::{self, AdmissionBound, Algorithm};
use crate::{CalendarPeriod, Cost, Quota, QuotaError, Span, Timestamp, Verdict};

macro_rules! limits {
    ($($Name:ident $field:ident $name:literal,)*) => {
        /// Names one of the algorithms.
        ///
        /// ```
        /// use tidegate::AlgorithmKind;
        ///
        /// assert_eq!("token-bucket".parse(), Ok(AlgorithmKind::TokenBucket));
        /// let error = "token-bukcet".parse::<AlgorithmKind>().unwrap_err();
        /// assert!(error.to_string().contains("fixed-window, sliding-window"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum AlgorithmKind {
            $(#[doc = concat!("`", $name, "`: [`algorithm::", stringify!($Name), "`].")] $Name,)*
        }

        impl AlgorithmKind {
            /// All algorithms, in registration order.
            pub const ALL: &'static [Self] = &[$(Self::$Name),*];

            /// The name in configuration and in answers.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Name => $name),* }
            }

            /// What it does, in one line; see [`Algorithm::SUMMARY`].
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$Name => <algorithm::$Name as Algorithm>::SUMMARY),* }
            }

            /// Its letter in the names of keys; see [`Algorithm::LETTER`].
            pub const fn letter(self) -> u8 {
                match self { $(Self::$Name => <algorithm::$Name as Algorithm>::LETTER),* }
            }

            /// Whether a quota may have a burst; see [`Algorithm::TAKES_BURST`].
            pub const fn takes_burst(self) -> bool {
                match self { $(Self::$Name => <algorithm::$Name as Algorithm>::TAKES_BURST),* }
            }

            /// Whether it only estimates; see [`Algorithm::ESTIMATES`].
            pub const fn estimates(self) -> bool {
                match self { $(Self::$Name => <algorithm::$Name as Algorithm>::ESTIMATES),* }
            }

            /// Whether a verdict can follow from one for another cost; see
            /// [`Algorithm::KNOWS_OTHER_COSTS`].
            pub const fn knows_other_costs(self) -> bool {
                match self { $(Self::$Name => <algorithm::$Name as Algorithm>::KNOWS_OTHER_COSTS),* }
            }
        }

        /// A quota with its algorithm, already checked: using it cannot fail or overflow.
        ///
        /// ```
        /// use tidegate::{AlgorithmKind, Limit};
        ///
        /// let limit = Limit::new(AlgorithmKind::SlidingLog, &"5/minute".parse()?)?;
        /// assert_eq!(limit.kind(), AlgorithmKind::SlidingLog);
        /// assert_eq!(limit.to_string(), "sliding-log 5/minute");
        /// # Ok::<(), tidegate::QuotaError>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the variants are the algorithms")]
        pub enum Limit {
            $($Name(algorithm::$Name),)*
        }

        impl Limit {
            /// Refuses what the algorithm cannot support: see [`Algorithm::from_quota`].
            ///
            /// # Errors
            ///
            /// [`QuotaError`] if the algorithm has no burst and the quota does, if a log would be too large, or if a
            /// bucket would not refill within a lifetime.
            pub fn new(kind: AlgorithmKind, quota: &Quota) -> Result<Self, QuotaError> {
                match kind {
                    $(AlgorithmKind::$Name => {
                        algorithm::$Name::from_quota(quota).map(Self::$Name)
                    })*
                }
            }

            /// Which algorithm this is.
            pub const fn kind(&self) -> AlgorithmKind {
                match self { $(Self::$Name(_) => AlgorithmKind::$Name),* }
            }

            /// The quota it was made from.
            pub fn quota(&self) -> Quota {
                match self { $(Self::$Name(algorithm) => algorithm.quota()),* }
            }

            /// What a full quota holds; see [`Algorithm::capacity`].
            pub fn capacity(&self) -> u64 {
                match self { $(Self::$Name(algorithm) => algorithm.capacity()),* }
            }

            /// After being idle for this long, a key is forgotten; see [`Algorithm::period`].
            pub fn period(&self) -> Span {
                match self { $(Self::$Name(algorithm) => algorithm.period()),* }
            }

            /// Whether denied requests count too; see [`Algorithm::counts_denied`].
            #[inline]
            pub fn counts_denied(&self) -> bool {
                match self { $(Self::$Name(algorithm) => Algorithm::counts_denied(algorithm)),* }
            }

            /// The same limit with another quota: the algorithm and its options stay. A calendar keeps
            /// its own window.
            ///
            /// ```
            /// use tidegate_core::algorithm::FixedWindow;
            /// use tidegate_core::{CalendarPeriod, Limit};
            ///
            /// let limit = Limit::from(FixedWindow::by_calendar(100, CalendarPeriod::Month)?);
            /// let half = limit.with_quota(&"50/day".parse()?)?;
            /// assert_eq!((half.capacity(), half.calendar()), (50, Some(CalendarPeriod::Month)));
            /// # Ok::<(), tidegate_core::QuotaError>(())
            /// ```
            pub fn with_quota(&self, quota: &Quota) -> Result<Self, QuotaError> {
                match self { $(Self::$Name(algorithm) => algorithm.with_quota(quota).map(Self::$Name)),* }
            }

            /// The calendar it follows, if any.
            pub fn calendar(&self) -> Option<CalendarPeriod> {
                match self { $(Self::$Name(algorithm) => Algorithm::calendar(algorithm)),* }
            }

            /// The most that passes in any span; see [`Algorithm::bound`].
            pub fn bound(&self) -> AdmissionBound {
                match self { $(Self::$Name(algorithm) => algorithm.bound()),* }
            }

            /// The most that passes in any window; see [`Algorithm::most_in_a_window`].
            pub fn most_in_a_window(&self) -> u64 {
                match self { $(Self::$Name(algorithm) => algorithm.most_in_a_window()),* }
            }

            /// What else people should know; see [`Algorithm::remark`].
            pub fn remark(&self) -> Option<String> {
                match self { $(Self::$Name(algorithm) => algorithm.remark()),* }
            }

            /// A denial of `before`, as it would be for `cost`; see [`Algorithm::at_another_cost`].
            pub fn at_another_cost(
                &self,
                verdict: Verdict,
                before: Cost,
                cost: Cost,
            ) -> Option<Verdict> {
                match self {
                    $(Self::$Name(algorithm) => algorithm.at_another_cost(verdict, before, cost)),*
                }
            }

            /// How long a cost has to wait, by a peek; see [`Algorithm::wait_after_peek`].
            pub fn wait_after_peek(&self, peeked: &Verdict, cost: Cost) -> Span {
                match self { $(Self::$Name(algorithm) => algorithm.wait_after_peek(peeked, cost)),* }
            }

            /// How many units still count; see [`Algorithm::used_until`].
            pub fn used_until(&self, used: u64, left: Span) -> u64 {
                match self { $(Self::$Name(algorithm) => algorithm.used_until(used, left)),* }
            }

            /// The time that the remaining units are for; see [`Algorithm::effective_window`].
            #[inline]
            pub fn effective_window(&self, verdict: &Verdict) -> Span {
                match self { $(Self::$Name(algorithm) => algorithm.effective_window(verdict)),* }
            }

            /// The verdict for a new key.
            ///
            /// It is the answer of every store to a key that it does not know, without a state to keep for it.
            pub fn probe_fresh(&self, cost: Cost, now: Timestamp) -> Verdict {
                match self {
                    $(Self::$Name(algorithm) => {
                        algorithm.probe(&Default::default(), cost, now)
                    })*
                }
            }
        }

        $(impl From<algorithm::$Name> for Limit {
            fn from(algorithm: algorithm::$Name) -> Self {
                Self::$Name(algorithm)
            }
        })*
    };
}

crate::for_each_algorithm!(limits);

impl AlgorithmKind {
    /// The default algorithm for a quota: a token bucket if it has a burst, otherwise the sliding
    /// window.
    ///
    /// ```
    /// use tidegate_core::AlgorithmKind;
    ///
    /// assert_eq!(AlgorithmKind::for_quota(&"5/s".parse()?), AlgorithmKind::SlidingWindow);
    /// assert_eq!(AlgorithmKind::for_quota(&"5/s burst 9".parse()?), AlgorithmKind::TokenBucket);
    /// # Ok::<(), tidegate_core::QuotaError>(())
    /// ```
    pub const fn for_quota(quota: &Quota) -> Self {
        match quota.burst_size() {
            Some(_) => Self::TokenBucket,
            None => Self::SlidingWindow,
        }
    }
}

impl FromStr for AlgorithmKind {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        Self::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            QuotaError::new(text, format!("unknown algorithm; expected {}", names.join(", ")))
        })
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Limit {
    /// The same limit, but counting denied requests too; `None` if its algorithm cannot.
    #[must_use]
    pub const fn counting_denied(&self) -> Option<Self> {
        match self {
            Self::FixedWindow(fixed) => Some(Self::FixedWindow(fixed.counting_denied())),
            _ => None,
        }
    }

    /// How many steps its window has; `None` if its algorithm has none.
    pub const fn steps(&self) -> Option<u64> {
        if let Self::SteppedWindow(stepped) = self { Some(stepped.steps()) } else { None }
    }

    /// The same limit with another number of steps. Refuses algorithms without steps.
    ///
    /// ```
    /// use tidegate_core::{AlgorithmKind, Limit};
    ///
    /// let limit = Limit::new(AlgorithmKind::SteppedWindow, &"100/minute".parse()?)?;
    /// assert_eq!(limit.with_steps(30)?.steps(), Some(30));
    /// let error = "100/minute".parse::<Limit>()?.with_steps(30).unwrap_err();
    /// assert!(error.to_string().contains("expected stepped-window"));
    /// # Ok::<(), tidegate_core::QuotaError>(())
    /// ```
    pub fn with_steps(&self, steps: u64) -> Result<Self, QuotaError> {
        match self {
            Self::SteppedWindow(stepped) => stepped.with_steps(steps).map(Self::SteppedWindow),
            other => Err(QuotaError::new(other.kind(), "has no steps; expected stepped-window")),
        }
    }

    /// How much per how long, the way people write it: `100/minute burst 20`, `9/calendar-month`.
    pub fn rate(&self) -> String {
        let quota = self.quota();
        match self.calendar() {
            Some(calendar) => format!("{}/{calendar}", quota.limit()),
            None => quota.to_string(),
        }
    }
}

/// Parses a quota with its default algorithm; see [`AlgorithmKind::for_quota`].
impl FromStr for Limit {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let quota: Quota = text.parse()?;
        Self::new(AlgorithmKind::for_quota(&quota), &quota)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.quota())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_a_limit_that_remembers_its_quota() {
        let quota: Quota = "100/minute".parse().unwrap();
        for kind in AlgorithmKind::ALL {
            let limit = Limit::new(*kind, &quota).unwrap();
            assert_eq!((limit.kind(), limit.quota(), limit.capacity()), (*kind, quota, 100));
            assert!(limit.period() >= quota.window());
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
    }

    #[test]
    fn every_kind_has_a_letter_of_its_own() {
        let letters: Vec<u8> = AlgorithmKind::ALL.iter().map(|kind| kind.letter()).collect();
        for (place, letter) in letters.iter().enumerate() {
            // Settings have the letter b.
            assert!(letter.is_ascii_lowercase() && *letter != b'b');
            assert!(!letters[..place].contains(letter), "{}", char::from(*letter));
        }
    }

    #[test]
    fn a_burst_asks_for_a_bucket() {
        let limit: Limit = "100/minute burst 20".parse().unwrap();
        assert_eq!((limit.kind(), limit.capacity()), (AlgorithmKind::TokenBucket, 20));
        assert_eq!(limit.quota().to_string(), "100/minute burst 20");
        let limit: Limit = "100/minute".parse().unwrap();
        assert_eq!(limit.kind(), AlgorithmKind::SlidingWindow);
    }

    #[test]
    fn zero_denies_even_a_peek_and_promises_nothing() {
        let quota: Quota = "0/second".parse().unwrap();
        for kind in AlgorithmKind::ALL {
            let limit = Limit::new(*kind, &quota).unwrap();
            for cost in [Cost::PEEK, Cost::ONE] {
                assert!(limit.probe_fresh(cost, Timestamp::from_secs(9)).is_hopeless());
            }
        }
    }
}
