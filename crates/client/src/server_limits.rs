//! Reads a server's limits from its responses.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{AGE, DATE, HeaderMap, RETRY_AFTER};
use http::{HeaderName, StatusCode};
use tidegate_limiter::{Clock, SystemClock};

use crate::field_item::{FieldItem, parse};

/// The limits in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerLimits {
    /// Whether the request was refused for lack of quota or capacity.
    pub(crate) is_refused: bool,
    /// When to retry, from `Retry-After` or from the exhausted limit of a refusal. Never zero: a zero
    /// wait in a refusal is no information.
    pub(crate) retry_after: Option<Duration>,
    /// The states of its limits, the tightest last.
    pub(crate) limits: Vec<ServerLimit>,
}

/// The state of a limit: `remaining` for the next `reset`, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerLimit {
    /// The policy's name.
    pub(crate) name: String,
    /// The partition of the policy's quota.
    pub(crate) partition: Option<String>,
    pub(crate) remaining: u64,
    pub(crate) reset: Option<Duration>,
    /// What a full quota holds.
    pub(crate) quota: Option<u64>,
    pub(crate) window: Option<Duration>,
}

impl ServerLimits {
    pub(crate) fn from_response(status: StatusCode, headers: &HeaderMap) -> Self {
        let is_refused =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let limits = server_limits(headers);
        let exhausted = limits.iter().filter(|limit| is_refused && limit.remaining == 0);
        let is_wait = |wait: &Duration| !wait.is_zero();
        let retry_after = retry_after(headers)
            .filter(is_wait)
            .or_else(|| exhausted.filter_map(ServerLimit::lasts_for).max().filter(is_wait));
        Self { is_refused, retry_after, limits }
    }

    /// Whether the response names limits, but not this one.
    pub(crate) fn is_about_other_limits(&self, limit: &ServerLimit) -> bool {
        let is_other =
            |other: &ServerLimit| other.name != limit.name || other.is_other_partition(limit);
        !self.limits.is_empty() && self.limits.iter().all(is_other)
    }
}

/// Reads seconds or a date. A date is compared with the server's own `Date` if there is one: the local
/// clock may be wrong.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit means forever.
        return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let shown =
        headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
    let now = shown.or_else(|| UNIX_EPOCH.checked_add(since_epoch()))?;
    Some(SystemTime::duration_since(&at, now).unwrap_or_default())
}

fn since_epoch() -> Duration {
    Duration::from_micros(SystemClock::new().now().as_micros())
}

/// The limits in the `RateLimit` fields. Those of a cached response are ignored: they were another
/// client's, some time ago.
fn server_limits(headers: &HeaderMap) -> Vec<ServerLimit> {
    if is_from_a_cache(headers) {
        return Vec::new();
    }
    let policies = items(headers, &RATELIMIT_POLICY);
    let limits = items(headers, &RATELIMIT).into_iter();
    let mut limits: Vec<_> = limits.filter_map(|item| server_limit(&item, &policies)).collect();
    limits.sort_by_key(|limit| gap(limit.lasts_for().unwrap_or_default(), limit.remaining));
    limits
}

/// Whether the response comes from a cache. `Age: 0` does not: caches add it to what they just fetched.
fn is_from_a_cache(headers: &HeaderMap) -> bool {
    headers.get_all(AGE).iter().any(|age| age.as_bytes().trim_ascii() != b"0")
}

fn server_limit(item: &FieldItem, policies: &[FieldItem]) -> Option<ServerLimit> {
    let policy = policy_of(item, policies);
    let unit = policy.and_then(|policy| policy.text("qu"));
    if unit.is_some_and(|unit| unit != "requests" && unit != "request") {
        return None;
    }
    Some(ServerLimit {
        name: item.name.clone(),
        partition: item.bytes("pk").map(str::to_owned),
        remaining: item.number("r")?,
        reset: item.number("t").map(Duration::from_secs),
        quota: policy.and_then(|policy| policy.number("q")),
        window: policy.and_then(|policy| policy.number("w")).map(Duration::from_secs),
    })
}

/// The policy of an item. If it has quotas for several partitions, the one of the item's partition.
fn policy_of<'a>(item: &FieldItem, policies: &'a [FieldItem]) -> Option<&'a FieldItem> {
    let partition = item.bytes("pk");
    let mut namesakes = policies.iter().filter(|policy| policy.name == item.name);
    let own = namesakes.clone().find(|policy| policy.bytes("pk") == partition);
    own.or_else(|| namesakes.find(|policy| policy.bytes("pk").is_none() || partition.is_none()))
}

/// The gap between requests so that `remaining` lasts until `reset`.
pub(crate) fn gap(reset: Duration, remaining: u64) -> Duration {
    let parts = u32::try_from(remaining.max(1)).unwrap_or(u32::MAX);
    reset.checked_div(parts).unwrap_or(reset)
}

impl ServerLimit {
    /// How long the state holds at most: until the reset, or a window if that is unknown.
    pub(crate) fn lasts_for(&self) -> Option<Duration> {
        self.reset.or(self.window)
    }

    /// Whether both have a partition, and the partitions differ.
    fn is_other_partition(&self, other: &Self) -> bool {
        self.partition.as_ref().zip(other.partition.as_ref()).is_some_and(|(a, b)| a != b)
    }

    /// The gap between requests at the policy's steady rate.
    pub(crate) fn steady_gap(&self) -> Option<Duration> {
        let quota = u32::try_from(self.quota?).unwrap_or(u32::MAX);
        self.window?.checked_div(quota)
    }
}

fn items(headers: &HeaderMap, name: &HeaderName) -> Vec<FieldItem> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.filter_map(parse).flatten().collect()
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(status: u16, fields: &[(&'static str, &str)]) -> ServerLimits {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        ServerLimits::from_response(StatusCode::from_u16(status).unwrap(), &headers)
    }

    fn wait(fields: &[(&'static str, &str)]) -> Option<u64> {
        parsed(429, fields).retry_after.map(|wait| wait.as_secs())
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait(&[("retry-after", "120")]), Some(120));
        assert_eq!(wait(&[("retry-after", " 7 ")]), Some(7));
        assert_eq!(wait(&[("retry-after", "99999999999999999999")]), Some(u64::MAX));
        for text in ["", "-1", "1.5", "soon", "1e3"] {
            assert_eq!(wait(&[("retry-after", text)]), None, "{text}");
        }
        let now = ("date", "Sun, 06 Nov 1994 08:49:07 GMT");
        for at in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(wait(&[("retry-after", at), now]), Some(30), "{at}");
        }
        assert!(wait(&[("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")]) > Some(1_000_000));
    }

    #[test]
    fn a_retry_after_of_zero_is_ignored() {
        assert_eq!(wait(&[("retry-after", "0")]), None);
        assert_eq!(wait(&[("ratelimit", r#""a";r=0;t=0"#)]), None);
        // A past date, by the server's clock and by the local one.
        let (over, now) = ("Sun, 06 Nov 1994 08:49:00 GMT", "Sun, 06 Nov 1994 08:49:07 GMT");
        assert_eq!(wait(&[("retry-after", over), ("date", now)]), None);
        assert_eq!(wait(&[("retry-after", over)]), None);
        // The limit can have a wait instead.
        assert_eq!(wait(&[("retry-after", "0"), ("ratelimit", r#""a";r=0;t=7"#)]), Some(7));
    }

    #[test]
    fn all_limits_are_read_and_the_tightest_comes_last() {
        let parsed = parsed(
            200,
            &[
                ("ratelimit-policy", r#""burst";q=100;w=60, "daily";q=1000;w=86400"#),
                ("ratelimit", r#""daily";r=12;t=36000"#),
                ("ratelimit", r#""burst";r=50;t=30"#),
            ],
        );
        assert!(!parsed.is_refused);
        let limit = |name: &str, remaining, reset, quota, window| ServerLimit {
            name: name.to_owned(),
            partition: None,
            remaining,
            reset: Some(Duration::from_secs(reset)),
            quota: Some(quota),
            window: Some(Duration::from_secs(window)),
        };
        let burst = limit("burst", 50, 30, 100, 60);
        let daily = limit("daily", 12, 36_000, 1_000, 86_400);
        let hourly = limit("hourly", 0, 0, 0, 0);
        assert!(!parsed.is_about_other_limits(&daily) && parsed.is_about_other_limits(&hourly));
        assert!(!ServerLimits::default().is_about_other_limits(&daily));
        assert_eq!(parsed.limits, [burst, daily]);
    }

    #[test]
    fn a_refusal_without_retry_after_shows_its_limit() {
        assert_eq!(wait(&[("ratelimit", r#""a";r=0;t=7"#)]), Some(7));
        assert_eq!(wait(&[("ratelimit", r#""a";r=1;t=7"#)]), None);
        assert_eq!(wait(&[("ratelimit", r#""a";r=0;t=7, "b";r=1;t=90, "c";r=0;t=8"#)]), Some(8));
        assert_eq!(wait(&[("ratelimit", r#""a";r=0;t=7"#), ("retry-after", "9")]), Some(9));
    }

    #[test]
    fn a_limit_that_does_not_say_how_long_holds_for_a_window() {
        let policy = ("ratelimit-policy", r#""a";q=10;w=60, "b";q=100"#);
        assert_eq!(wait(&[policy, ("ratelimit", r#""a";r=0, "b";r=0"#)]), Some(60));
        assert_eq!(wait(&[policy, ("ratelimit", r#""a";r=0;t=7"#)]), Some(7));
        assert_eq!(wait(&[policy, ("ratelimit", r#""a";r=0"#), ("retry-after", "9")]), Some(9));
        assert_eq!(wait(&[policy, ("ratelimit", r#""a";r=1, "b";r=0"#)]), None);
        let parsed = parsed(200, &[("ratelimit", r#""a";r=3"#)]);
        assert_eq!((parsed.limits[0].remaining, parsed.limits[0].reset), (3, None));
    }

    #[test]
    fn fields_of_a_cached_response_are_ignored() {
        let limit = ("ratelimit", r#""a";r=0;t=7"#);
        assert_eq!(parsed(200, &[limit, ("age", "5")]).limits, []);
        assert_eq!(parsed(200, &[limit, ("age", "0")]).limits.len(), 1);
        // An exhausted limit is a wait only in a refusal.
        assert_eq!(wait(&[limit, ("age", "5"), ("retry-after", "9")]), Some(9));
    }

    #[test]
    fn partitions_of_a_policy_are_apart() {
        let policy = r#""a";q=10;w=60;pk=:eA==:, "a";q=20;w=60;pk=:eQ==:, "b";q=30"#;
        let limits = r#""a";r=1;t=9;pk=:eA==:, "a";r=1;t=8;pk=:eQ:, "a";r=1;t=7;pk=:eg==:, "b";r=1;t=6;pk=:eA==:"#;
        let parsed = parsed(200, &[("ratelimit-policy", policy), ("ratelimit", limits)]);
        let quotas: Vec<_> = parsed.limits.iter().map(|it| it.quota).collect();
        assert_eq!(quotas, [Some(30), None, Some(20), Some(10)]);
        let one = ServerLimits { limits: parsed.limits[3..].to_vec(), ..ServerLimits::default() };
        assert!(
            one.is_about_other_limits(&parsed.limits[2])
                && !one.is_about_other_limits(&parsed.limits[3])
        );
        let unsaid = ServerLimit { partition: None, ..parsed.limits[3].clone() };
        assert!(!one.is_about_other_limits(&unsaid));
    }

    #[test]
    fn limits_in_other_units_than_requests_are_ignored() {
        let policy = ("ratelimit-policy", r#""a";q=100;qu="content-bytes""#);
        assert_eq!(parsed(200, &[policy, ("ratelimit", r#""a";r=0;t=7"#)]).limits, []);
    }
}
