//! The sampling ratio: the share of traces that are recorded.

use std::fmt;
use std::str::FromStr;

/// A share of all traces, between none and all.
///
/// ```
/// use tidegate_server::trace::SamplingRatio;
///
/// let ratio: SamplingRatio = "0.25".parse()?;
/// assert!(ratio.samples(1 << 61) && !ratio.samples(1 << 62));
/// assert!("1.5".parse::<SamplingRatio>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingRatio(u128);

impl SamplingRatio {
    /// Every trace.
    pub const ALL: Self = Self(1 << 64);
    /// Only traces that trusted callers record.
    pub const NONE: Self = Self(0);

    /// Whether a trace is sampled. It depends only on the trace's number, so that all services agree.
    pub const fn samples(self, trace: u128) -> bool {
        ((trace as u64) as u128) < self.0
    }
}

impl FromStr for SamplingRatio {
    type Err = String;

    /// Parses digits exactly, without a float.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?}: expected a number from 0 to 1, such as 0.01");
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        if text.is_empty() || !is_number(whole) || !is_number(part) || part.len() > MAX_DIGITS {
            return Err(wrong());
        }
        let part_of_all = match part {
            "" => 0,
            part => {
                let digits: u128 = part.parse().map_err(|_| wrong())?;
                digits * Self::ALL.0 / 10_u128.pow(u32::try_from(part.len()).unwrap_or(0))
            }
        };
        match (whole.trim_start_matches('0'), part_of_all) {
            ("", part) => Ok(Self(part)),
            ("1", 0) => Ok(Self::ALL),
            _ => Err(wrong()),
        }
    }
}

/// `all`, `none`, or about one in how many.
impl fmt::Display for SamplingRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("all"),
            Self::NONE => f.write_str("none"),
            Self(part) => write!(f, "about one in {}", (Self::ALL.0 + part / 2) / part),
        }
    }
}

/// More digits would not matter, and could overflow.
const MAX_DIGITS: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_and_everything_else_is_refused() {
        for (text, shown) in [
            ("1", "all"),
            ("1.0", "all"),
            ("0", "none"),
            ("0.0", "none"),
            ("0.5", "about one in 2"),
            (".1", "about one in 10"),
            ("0.01", "about one in 100"),
            ("0.000000000000000001", "about one in 1024819115206086201"),
        ] {
            assert_eq!(text.parse::<SamplingRatio>().unwrap().to_string(), shown, "{text}");
        }
        for text in ["", "1.1", "2", "-0.5", "+1", "1e-3", "50%", "0,5", "0.0000000000000000001"] {
            let error = text.parse::<SamplingRatio>().unwrap_err();
            assert_eq!(error, format!("{text:?}: expected a number from 0 to 1, such as 0.01"));
        }
    }

    #[test]
    fn about_as_many_are_drawn_as_were_asked_for() {
        let ratio: SamplingRatio = "0.1".parse().unwrap();
        let mut chance = fastrand::Rng::with_seed(7);
        let drawn = (0..10_000).filter(|_| ratio.samples(chance.u128(..))).count();
        assert!((900..1_100).contains(&drawn), "{drawn}");
        assert!(SamplingRatio::ALL.samples(u128::MAX) && !SamplingRatio::NONE.samples(0));
    }
}
