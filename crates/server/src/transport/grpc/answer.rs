//! Turns a decision into the message that Envoy receives.

use prost_types::{Duration, Struct, Value, value};
use tidegate::config::{DescriptorCharges, DescriptorOutcome as Status};
use tidegate::{CalendarPeriod, DecisionSource, Limit, Span};
use tidegate_http::{LimitReport, RateLimitAnswer, each_field};
use tidegate_wire::envoy::{
    Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitResponse, Unit,
};

use super::decision::{EnvoyChargeGroup, EnvoyDecision};
use super::request::DescriptorAction;

/// The overall decision, the status of each descriptor, and the headers for the client.
pub(super) fn envoy_response(
    charges: &DescriptorCharges<'_>,
    decision: &EnvoyDecision<'_>,
) -> RateLimitResponse {
    RateLimitResponse {
        overall_code: code(decision.is_denied()).into(),
        statuses: charges.statuses.iter().map(|one| status(one, charges, decision)).collect(),
        response_headers_to_add: decision.tightest_group().map(headers).unwrap_or_default(),
        dynamic_metadata: fallback_metadata(decision),
        ..RateLimitResponse::default()
    }
}

/// Metadata that is set if the fallback decided instead of the store. Envoy's access log can show it, and
/// other filters can use it.
fn fallback_metadata(decision: &EnvoyDecision<'_>) -> Option<Struct> {
    let mut sources = decision.groups.iter().map(|group| group.decision.source());
    let source = sources.find(|source| *source == DecisionSource::Fallback)?;
    let value = Value { kind: Some(value::Kind::StringValue(source.name().to_owned())) };
    Some(Struct { fields: [("source".to_owned(), value)].into() })
}

fn status(
    status: &Status,
    charges: &DescriptorCharges<'_>,
    decision: &EnvoyDecision<'_>,
) -> DescriptorStatus {
    let ok = DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() };
    match *status {
        Status::Charged { first, count } => {
            let Some((group, verdicts)) = decision.verdicts(first, count) else { return ok };
            let own = charges.charges.charges().iter().enumerate().skip(first);
            let reports = own.zip(verdicts).map(|((index, charge), verdict)| {
                let policy = charges.charges.policy_name(index).unwrap_or_default();
                LimitReport { policy, rule: charge.rule(), verdict }
            });
            let enforced = reports.clone().filter(|report| report.rule.enforced);
            let is_over = match verdicts {
                // The fallback decided, because the store could not.
                [] => group.is_denied_by(first, count),
                _ => {
                    group.action != DescriptorAction::Refund
                        && enforced.clone().any(|report| !report.verdict.allowed)
                }
            };
            let status = tightest(enforced).or_else(|| tightest(reports)).map(limit_status);
            DescriptorStatus { code: code(is_over).into(), ..status.unwrap_or_default() }
        }
        Status::Unlimited => DescriptorStatus { limit_remaining: u32::MAX, ..ok },
        _ => ok,
    }
}

fn tightest<'a>(reports: impl Iterator<Item = LimitReport<'a>>) -> Option<LimitReport<'a>> {
    reports
        .reduce(|one, other| if other.verdict.is_tighter_than(one.verdict) { other } else { one })
}

/// A limit and what is left of it.
fn limit_status(report: LimitReport<'_>) -> DescriptorStatus {
    let limit = &report.rule.limit;
    DescriptorStatus {
        current_limit: Some(RateLimit {
            name: report.policy.to_owned(),
            requests_per_unit: number(limit.quota().limit()),
            unit: unit(limit).into(),
        }),
        limit_remaining: number(report.verdict.remaining),
        duration_until_reset: Some(duration(report.verdict.reset_after)),
        ..DescriptorStatus::default()
    }
}

/// The same headers as in a response over HTTP.
fn headers(group: &EnvoyChargeGroup<'_>) -> Vec<HeaderValue> {
    let mut headers = Vec::with_capacity(3);
    let answer = RateLimitAnswer::of_charges(&group.request_charges, &group.decision);
    let answer = if group.is_denied() { answer } else { answer.without_wait() };
    each_field(&answer, None, |name, write| {
        let mut value = Vec::with_capacity(VALUE);
        write(&mut value);
        headers.push(HeaderValue {
            key: name.to_owned(),
            // Header values are ASCII.
            value: String::from_utf8(value).unwrap_or_default(),
            ..HeaderValue::default()
        });
    });
    headers
}

/// A capacity that suffices for most values.
const VALUE: usize = 64;

const fn code(is_over: bool) -> Code {
    if is_over { Code::OverLimit } else { Code::Ok }
}

/// The unit of a limit's window, if Envoy has a name for it.
fn unit(limit: &Limit) -> Unit {
    if let Some(calendar) = limit.calendar() {
        return match calendar {
            CalendarPeriod::Day => Unit::Day,
            CalendarPeriod::Week => Unit::Week,
            CalendarPeriod::Month => Unit::Month,
            _ => Unit::Unknown,
        };
    }
    let window = limit.quota().window();
    let units = [
        (Span::from_secs(1), Unit::Second),
        (Span::from_secs(60), Unit::Minute),
        (Span::from_secs(3_600), Unit::Hour),
        (Span::from_days(1), Unit::Day),
        (Span::from_days(7), Unit::Week),
        (Span::from_days(30), Unit::Month),
        (Span::from_days(365), Unit::Year),
    ];
    units.iter().find(|(span, _)| *span == window).map_or(Unit::Unknown, |(_, unit)| *unit)
}

fn duration(span: Span) -> Duration {
    let (secs, micros) = (span.as_micros() / 1_000_000, span.as_micros() % 1_000_000);
    Duration {
        seconds: i64::try_from(secs).unwrap_or(i64::MAX),
        nanos: i32::try_from(micros * 1_000).unwrap_or_default(),
    }
}

fn number(units: u64) -> u32 {
    u32::try_from(units).unwrap_or(u32::MAX)
}
