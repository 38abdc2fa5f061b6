//! The data that `top` shows: the difference between two states of a server.

use std::cmp::Reverse;

use tidegate::Stopwatch;
use tidegate_wire::admin::{PolicyStatus, ServerStatus, TimingHistogram};

/// Two states, and the time between them.
pub(super) struct TopModel {
    before: ServerStatus,
    pub(super) now: ServerStatus,
    taken: Stopwatch,
    nanos: u64,
    sort: TopSort,
    is_paused: bool,
    /// Why the last state is out of date.
    pub(super) problem: Option<String>,
}

/// What policies are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopSort {
    Decisions,
    Denials,
    Name,
}

impl TopSort {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Decisions => "decisions",
            Self::Denials => "denials",
            Self::Name => "name",
        }
    }
}

/// A policy as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopRow<'a> {
    pub(super) policy: &'a PolicyStatus,
    pub(super) allowed: TopRate,
    pub(super) denied: TopRate,
    pub(super) shadow_denied: TopRate,
    pub(super) early_returns: TopRate,
    pub(super) overflowed: TopRate,
}

/// A rate per second, in tenths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TopRate(u64);

impl TopModel {
    pub(super) fn new(status: ServerStatus, taken: Stopwatch) -> Self {
        Self {
            before: status.clone(),
            now: status,
            taken,
            nanos: 1_000_000_000,
            sort: TopSort::Decisions,
            is_paused: false,
            problem: None,
        }
    }

    /// Takes a newer state, or the reason why there is none.
    pub(super) fn update(&mut self, status: anyhow::Result<ServerStatus>, taken: Stopwatch) {
        match status {
            Ok(status) => {
                self.nanos = self.taken.nanos().saturating_sub(taken.nanos()).max(1);
                self.taken = taken;
                self.before = std::mem::replace(&mut self.now, status);
                self.problem = None;
            }
            Err(error) => self.problem = Some(format!("{error:#}")),
        }
    }

    /// For tests: rates do not depend on how long the test took.
    #[cfg(test)]
    pub(super) fn assume_one_second(&mut self) {
        self.nanos = 1_000_000_000;
    }

    pub(super) const fn sort(&self) -> TopSort {
        self.sort
    }

    pub(super) fn sort_by_next(&mut self) {
        self.sort = match self.sort {
            TopSort::Decisions => TopSort::Denials,
            TopSort::Denials => TopSort::Name,
            TopSort::Name => TopSort::Decisions,
        };
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn pause(&mut self) {
        self.is_paused = !self.is_paused;
    }

    /// The policies, sorted.
    pub(super) fn rows(&self) -> Vec<TopRow<'_>> {
        let mut rows: Vec<TopRow<'_>> =
            self.now.policies.iter().map(|policy| self.row(policy)).collect();
        let all = |row: &TopRow<'_>| row.allowed.0 + row.denied.0 + row.shadow_denied.0;
        match self.sort {
            TopSort::Decisions => rows.sort_by_key(|row| Reverse(all(row))),
            TopSort::Denials => rows.sort_by_key(|row| Reverse(row.denied)),
            TopSort::Name => rows.sort_by(|a, b| a.policy.name.cmp(&b.policy.name)),
        }
        rows
    }

    fn row<'a>(&self, policy: &'a PolicyStatus) -> TopRow<'a> {
        let before = self.before.policies.iter().find(|before| before.name == policy.name);
        let rate = |counter: fn(&PolicyStatus) -> u64| {
            self.rate(before.map_or(0, counter), counter(policy))
        };
        TopRow {
            policy,
            allowed: rate(|policy| policy.allowed),
            denied: rate(|policy| policy.denied),
            shadow_denied: rate(|policy| policy.shadow_denied),
            early_returns: rate(|policy| policy.early_returns),
            overflowed: rate(|policy| policy.overflowed.unwrap_or(0)),
        }
    }

    /// How much a counter of the whole server grows per second.
    pub(super) fn rate_of(&self, counter: impl Fn(&ServerStatus) -> u64) -> TopRate {
        self.rate(counter(&self.before), counter(&self.now))
    }

    fn rate(&self, before: u64, now: u64) -> TopRate {
        // A server that was restarted begins at zero.
        let more = u128::from(now.checked_sub(before).unwrap_or(now));
        let tenths = more * 10_000_000_000 / u128::from(self.nanos);
        TopRate(u64::try_from(tenths).unwrap_or(u64::MAX))
    }

    /// The bound below which this percentage of the timings between the two states lies: `<1ms`.
    pub(super) fn quantile(
        &self,
        percent: u64,
        histogram: impl Fn(&ServerStatus) -> &TimingHistogram,
    ) -> String {
        let (before, now) = (histogram(&self.before), histogram(&self.now));
        let since = now.counts.iter().enumerate().map(|(bucket, count)| {
            count.saturating_sub(before.counts.get(bucket).copied().unwrap_or(0))
        });
        let since: Vec<u64> = since.collect();
        let count: u64 = since.iter().sum();
        let wanted = count.saturating_mul(percent).div_ceil(100).max(1);
        let mut below = 0;
        for (bucket, in_bucket) in since.iter().enumerate() {
            below += in_bucket;
            if below >= wanted {
                return match now.bounds_nanos.get(bucket) {
                    Some(bound) => format!("<{}", duration(*bound)),
                    None => format!(">{}", duration(now.bounds_nanos.last().copied().unwrap_or(0))),
                };
            }
        }
        "-".to_owned()
    }
}

impl TopRate {
    /// The share of this rate in the sum of both, in tenths of a percent.
    pub(super) fn share_of(self, rest: Self) -> Option<u64> {
        (self.0 * 1_000).checked_div(self.0 + rest.0)
    }
}

impl std::fmt::Display for TopRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self.0 {
            0 => "0".to_owned(),
            tenths @ 1..1_000 => format!("{}.{}", tenths / 10, tenths % 10),
            tenths => short(tenths / 10),
        };
        f.pad(&text)
    }
}

/// In nine columns at most: `123,456`, `12.34M`, `1,234M`.
pub(super) fn short(number: u64) -> String {
    match number {
        0..1_000_000 => grouped(number),
        1_000_000..1_000_000_000 => {
            format!("{}.{:02}M", number / 1_000_000, number / 10_000 % 100)
        }
        _ => format!("{}M", grouped((number / 1_000_000).min(999_999))),
    }
}

/// `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `12.3 MB`.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
        _ => format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10),
    }
}

/// `2.5ms`.
pub(super) fn duration(nanos: u64) -> String {
    let (unit, name) = match nanos {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    match nanos % unit * 10 / unit {
        0 => format!("{}{name}", nanos / unit),
        tenth => format!("{}.{tenth}{name}", nanos / unit),
    }
}

/// `3d 4h`, `2m 5s`.
pub(super) fn age(secs: u64) -> String {
    match secs {
        0..60 => format!("{secs}s"),
        60..3_600 => format!("{}m {}s", secs / 60, secs % 60),
        3_600..86_400 => format!("{}h {}m", secs / 3_600, secs / 60 % 60),
        _ => format!("{}d {}h", secs / 86_400, secs / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_rounded() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        for (number, text) in [
            (999_999, "999,999"),
            (1_000_000, "1.00M"),
            (999_999_999, "999.99M"),
            (12_345_678_901, "12,345M"),
            (u64::MAX, "999,999M"),
        ] {
            assert_eq!(short(number), text);
            assert!(text.len() <= 9);
        }
        assert_eq!((bytes(9_999), bytes(12_345_678)), ("9999 B".to_owned(), "12.3 MB".to_owned()));
        assert_eq!((duration(250), duration(2_500_000)), ("250ns".to_owned(), "2.5ms".to_owned()));
        assert_eq!(
            (age(59), age(3_725), age(90_000)),
            ("59s".into(), "1h 2m".into(), "1d 1h".into())
        );
        assert_eq!(TopRate(0).to_string(), "0");
        assert_eq!(
            (TopRate(15).to_string(), TopRate(123_456).to_string()),
            ("1.5".into(), "12,345".into())
        );
        assert_eq!(TopRate(25).share_of(TopRate(75)), Some(250));
        assert_eq!(TopRate(0).share_of(TopRate(0)), None);
    }

    #[test]
    fn a_server_that_was_started_anew_counts_from_zero() {
        let status = |allowed| {
            let policy = PolicyStatus { name: "a".into(), allowed, ..PolicyStatus::default() };
            ServerStatus { policies: vec![policy], ..ServerStatus::default() }
        };
        let mut model = TopModel::new(status(1_000), Stopwatch::start());
        model.update(Ok(status(30)), Stopwatch::start());
        model.assume_one_second();
        assert_eq!(model.rows()[0].allowed, TopRate(300));
        model.update(Err(anyhow::anyhow!("gone")), Stopwatch::start());
        assert_eq!(model.problem.as_deref(), Some("gone"));
        assert_eq!(model.now.policies[0].allowed, 30, "the last state stays");
    }
}
