//! The `RateLimit` fields of draft-ietf-httpapi-ratelimit-headers-11, and `Retry-After`.

use std::sync::Arc;

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_limiter::Span;
use tidegate_limiter::config::LegacyHeaders;

use crate::legacy::LegacyValues;
use crate::policy_header::{FieldInteger, write_quota, write_quoted, write_state};
use crate::{CachedPolicyHeader, LimitReport, RateLimitAnswer};

/// Writes when to try again, and the state of the tightest limit if there is one.
///
/// `RateLimit-Policy` has the quota, `RateLimit` what is left of it and for how long, and `Retry-After` is for denials.
///
/// ```
/// use http::HeaderMap;
/// use tidegate::Limiter;
/// use tidegate::http::{RateLimitAnswer, describe};
///
/// let limiter = Limiter::builder().name("api").limit("100/hour burst 100").build()?;
/// let decision = limiter.check_now("alice");
/// let mut headers = HeaderMap::new();
/// describe(&RateLimitAnswer::of_policy(limiter.policy(), &decision), &mut headers);
/// assert_eq!(headers["ratelimit-policy"], r#""api";q=100;w=3600"#);
/// assert_eq!(headers["ratelimit"], r#""api";r=99;t=36"#);
/// # Ok::<(), tidegate::BuildError>(())
/// ```
pub fn describe(answer: &RateLimitAnswer<'_, '_>, headers: &mut HeaderMap) {
    RateLimitFields::of(answer).insert_into(headers);
}

/// [`describe`], and [`describe_legacy`](crate::describe_legacy) if there is a unit, for callers without a
/// header map: calls `write` for each field with its name and a function that appends its value.
///
/// ```
/// use tidegate::Limiter;
/// use tidegate::http::RateLimitAnswer;
/// use tidegate_http::each_field;
///
/// let limiter = Limiter::builder().name("api").limit("5/minute").build()?;
/// let decision = limiter.check_now("alice");
/// let mut head = Vec::new();
/// each_field(&RateLimitAnswer::of_policy(limiter.policy(), &decision), None, |name, write| {
///     head.extend_from_slice(name.as_bytes());
///     head.extend_from_slice(b": ");
///     write(&mut head);
///     head.extend_from_slice(b"\r\n");
/// });
/// assert!(head.starts_with(b"ratelimit-policy: \"api\";q=5;w=60\r\n"));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
pub fn each_field(
    answer: &RateLimitAnswer<'_, '_>,
    legacy: Option<LegacyHeaders>,
    mut write: impl FnMut(&'static str, &dyn Fn(&mut Vec<u8>)),
) {
    let write_number = |out: &mut Vec<u8>, number| {
        out.extend_from_slice(FieldInteger::new().of(number).as_bytes());
    };
    let values = RateLimitValues::of(answer);
    if let Some(secs) = values.retry_after {
        write("retry-after", &|out| write_number(out, secs));
    }
    if let Some((_, report)) = values.tightest {
        write("ratelimit-policy", &|out| {
            write_quota(out, report.policy, &report.rule.limit);
        });
        write("ratelimit", &|out| {
            write_quoted(out, report.policy);
            write_state(out, report.verdict.remaining, values.t);
        });
    }
    if let Some(legacy) = legacy.and_then(|unit| LegacyValues::of(answer, unit)) {
        for (name, number) in legacy.fields() {
            write(name, &|out| write_number(out, number));
        }
    }
}

/// The values of the fields.
struct RateLimitValues<'a> {
    retry_after: Option<u64>,
    /// The tightest limit, and its index.
    tightest: Option<(usize, LimitReport<'a>)>,
    t: u64,
}

impl<'a> RateLimitValues<'a> {
    #[inline(always)]
    fn of(answer: &RateLimitAnswer<'a, '_>) -> Self {
        let decision = answer.decision();
        let retry_after = answer.retry_after().map(retry_after_secs);
        let tightest = decision.tightest_index();
        let tightest = tightest.and_then(|index| Some((index, answer.limit_report(index)?)));
        let window = tightest
            .map(|(_, report)| report.rule.limit.effective_window(report.verdict).as_secs_ceil());
        // A client that waits for `t` must not return before `Retry-After`.
        Self { retry_after, tightest, t: retry_after.or(window).unwrap_or_default() }
    }
}

/// The fields of an answer, for a response that does not exist yet.
///
/// A layer makes them before it calls the service, and adds them to what the service answers.
///
/// ```
/// use http::Response;
/// use tidegate::Limiter;
/// use tidegate::http::{RateLimitAnswer, RateLimitFields};
///
/// let limiter = Limiter::builder().name("api").limit("5/minute").build()?;
/// let decision = limiter.check_now("alice");
/// let fields = RateLimitFields::of(&RateLimitAnswer::of_policy(limiter.policy(), &decision));
/// let mut response = Response::new("the service's");
/// fields.append_to(response.headers_mut());
/// assert!(response.headers().contains_key("ratelimit"));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RateLimitFields {
    retry_after: Option<u64>,
    /// The state of the tightest limit, if there is one.
    state: Option<RateLimitState>,
    /// Boxed, since few deployments enable them.
    legacy: Option<Box<LegacyValues>>,
}

/// The state of a limit as numbers: they become text only when the response exists.
#[derive(Clone, Debug)]
struct RateLimitState {
    header: HeaderOrigin,
    remaining: u64,
    t: u64,
}

/// The header of a policy: from the cache, or computed for this answer.
#[derive(Clone, Debug)]
enum HeaderOrigin {
    Cached(&'static CachedPolicyHeader),
    Computed(Arc<CachedPolicyHeader>),
}

impl RateLimitState {
    /// `RateLimit-Policy` and `RateLimit`.
    fn values(self) -> (HeaderValue, HeaderValue) {
        let header = match &self.header {
            HeaderOrigin::Cached(header) => header,
            HeaderOrigin::Computed(header) => &**header,
        };
        (header.quota(), header.state(self.remaining, self.t))
    }
}

impl RateLimitFields {
    /// The fields with when to try again, and the state of the tightest limit if there is one.
    pub fn of(answer: &RateLimitAnswer<'_, '_>) -> Self {
        let mut fields = Self::default();
        fields.set_from(answer);
        fields
    }

    /// [`of`](Self::of) into existing fields, which saves a move.
    #[inline]
    pub fn set_from(&mut self, answer: &RateLimitAnswer<'_, '_>) {
        let RateLimitValues { retry_after, tightest, t } = RateLimitValues::of(answer);
        self.retry_after = retry_after;
        self.legacy = None;
        self.state = tightest.map(|(index, report)| {
            let compute = || CachedPolicyHeader::new(report.policy, &report.rule.limit);
            let header = match answer.policy_header(index) {
                Some(header) => HeaderOrigin::Cached(header),
                None => HeaderOrigin::Computed(Arc::new(compute())),
            };
            RateLimitState { header, remaining: report.verdict.remaining, t }
        });
    }

    /// Adds `X-RateLimit-*`; see [`describe_legacy`](crate::describe_legacy).
    pub fn set_legacy_from(&mut self, answer: &RateLimitAnswer<'_, '_>, unit: LegacyHeaders) {
        self.legacy = LegacyValues::of(answer, unit).map(Box::new);
    }

    /// Keeps only when to try again.
    #[must_use]
    pub fn only_retry_after(self) -> Self {
        Self { retry_after: self.retry_after, ..Self::default() }
    }

    /// Writes the fields, replacing existing ones.
    pub fn insert_into(self, headers: &mut HeaderMap) {
        let Self { retry_after, state, legacy } = self;
        insert_retry_after(retry_after, headers);
        if let Some((policy, state)) = state.map(RateLimitState::values) {
            headers.insert(RATELIMIT_POLICY, policy);
            headers.insert(RATELIMIT, state);
        }
        if let Some(legacy) = legacy {
            legacy.insert_into(headers);
        }
    }

    /// Adds the fields beside those of other limits: both fields are lists. The legacy fields are not, so
    /// only the tightest limit's are kept.
    pub fn append_to(self, headers: &mut HeaderMap) {
        let Self { retry_after, state, legacy } = self;
        insert_retry_after(retry_after, headers);
        if let Some((policy, state)) = state.map(RateLimitState::values) {
            headers.append(RATELIMIT_POLICY, policy);
            headers.append(RATELIMIT, state);
        }
        if let Some(legacy) = legacy {
            legacy.insert_if_tighter(headers);
        }
    }
}

fn insert_retry_after(secs: Option<u64>, headers: &mut HeaderMap) {
    if let Some(secs) = secs {
        headers.insert(RETRY_AFTER, secs.into());
    }
}

/// Whole seconds, rounded up and at least one: zero would mean an immediate retry.
fn retry_after_secs(span: Span) -> u64 {
    span.as_secs_ceil().max(1)
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_limiter::config::PolicySource;
    use tidegate_limiter::{Cost, Decision, LocalStore, ManualClock, MemoryStore, Plan, Timestamp};

    fn described(policy: &str, cost: u64) -> HeaderMap {
        described_by(&MemoryStore::new(), policy, cost)
    }

    fn described_by(store: &impl LocalStore, policy: &str, cost: u64) -> HeaderMap {
        let text = format!("policies: [{{ key: [], {policy} }}]");
        let plan = Plan::compile(&PolicySource::new("test", text).unwrap()).unwrap();
        let request_charges = plan.charges::<[(&str, &str)]>(&[], Cost::new(cost).unwrap());
        let charges = request_charges.charges();
        let decision =
            Decision::of_charges(charges, tidegate_limiter::DecisionSource::Store, |out| {
                store.settle_now(charges, out)
            });
        let (answer, mut headers) =
            (RateLimitAnswer::of_charges(&request_charges, &decision), HeaderMap::new());
        describe(&answer, &mut headers);
        assert_eq!(told(&answer), headers);
        headers
    }

    fn told(answer: &RateLimitAnswer<'_, '_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        each_field(answer, None, |name, write| {
            let mut value = Vec::new();
            write(&mut value);
            headers.insert(name, HeaderValue::from_bytes(&value).unwrap());
        });
        headers
    }

    fn fields(name: &str, limits: &[&str], cost: u64) -> [Option<String>; 3] {
        let limits = limits.join(", ");
        let headers = described(&format!("name: {name}, limits: [{limits}]"), cost);
        [RATELIMIT_POLICY, RATELIMIT, RETRY_AFTER]
            .map(|name| Some(headers.get(name)?.to_str().unwrap().to_owned()))
    }

    #[test]
    fn the_tightest_limit_is_shown() {
        let [policy, state, retry] = fields("api", &["100/minute burst 100", "5/hour burst 5"], 1);
        assert_eq!(policy.unwrap(), r#""api";q=5;w=3600"#);
        assert_eq!(state.unwrap(), r#""api";r=4;t=720"#);
        assert_eq!(retry, None);
    }

    #[test]
    fn what_remains_of_a_sliding_window_is_for_one_window() {
        let clock = ManualClock::at(Timestamp::from_secs(6_000));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let state = |cost| {
            let headers = described_by(&store, "name: p, limits: [2/minute]", cost);
            [RATELIMIT, RETRY_AFTER].map(|name| headers.get(name).cloned())
        };
        let told = |state: &str| Some(HeaderValue::from_str(state).unwrap());
        assert_eq!(state(1), [told(r#""p";r=1;t=60"#), None]);
        clock.advance(Span::from_millis(12_500));
        assert_eq!(state(1), [told(r#""p";r=0;t=60"#), None]);
        // A denial shows the time until it passes; nothing may remain when the window ends.
        assert_eq!(state(1), [told(r#""p";r=0;t=78"#), told("78")]);
        // Only the previous window counts, and it does until this one ends.
        clock.advance(Span::from_millis(67_500));
        assert_eq!(state(0), [told(r#""p";r=0;t=40"#), None]);
    }

    #[test]
    fn names_are_quoted_whatever_they_hold() {
        let [policy, ..] = fields(r#"'a"b\c x: é'"#, &["1/day"], 0);
        assert_eq!(policy.unwrap(), r#""a\"b\\c x: %c3%a9";q=1;w=86400"#);
    }

    #[test]
    fn numbers_fit_their_fields() {
        let [policy, ..] = fields("p", &["1000000000000000/1500ms"], 0);
        assert_eq!(policy.unwrap(), r#""p";q=999999999999999"#);
        let month = fields("p", &["{ quota: 9, per: calendar-month, algorithm: fixed-window }"], 0);
        assert_eq!(month[0].as_deref(), Some(r#""p";q=9"#));
        assert_eq!(retry_after_secs(Span::ZERO), 1);
        assert_eq!(retry_after_secs(Span::from_millis(1_001)), 2);
    }

    #[test]
    fn a_cost_that_never_fits_gets_no_retry_after() {
        let [_, state, retry] = fields("p", &["5/minute"], 6);
        assert_eq!(state.unwrap(), r#""p";r=5;t=0"#);
        assert_eq!(retry, None);
    }

    #[test]
    fn without_a_limit_there_are_no_fields() {
        let headers = described("name: a, limits: [1/s], mode: shadow", 1);
        assert!(headers.is_empty());
    }
}
