//! Reads a message into valid descriptor requests, or into a refusal that names the field.

use smallvec::SmallVec;
use tidegate::{AlgorithmKind, Cost, Limit, MAX_COUNT, Plan, Quota, Span};
use tidegate_wire::envoy::{
    RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitUnit,
};

use super::refusal::GrpcRefusal;
use crate::RefusalReason;

/// What one descriptor requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorRequest {
    pub(super) action: DescriptorAction,
    pub(super) cost: Cost,
    /// A limit that the descriptor itself specifies.
    pub(super) limit: Option<Limit>,
}

/// What to do with a descriptor's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptorAction {
    /// Report what remains, without counting.
    Peek,
    /// Take units.
    Charge,
    /// Give units back.
    Refund,
}

pub(super) type DescriptorRequests = SmallVec<[DescriptorRequest; 4]>;

/// Reads what each descriptor requests. Values can have any length: the message as a whole is bounded,
/// and values are hashed, never stored.
pub(super) fn read(
    request: &RateLimitRequest,
    may_refund: bool,
) -> Result<DescriptorRequests, GrpcRefusal> {
    let RateLimitRequest { domain, descriptors, hits_addend } = request;
    if domain.is_empty() {
        return Err(GrpcRefusal::field("domain", "is empty", "a name"));
    }
    if descriptors.is_empty() {
        return Err(GrpcRefusal::field("descriptors", "is empty", "at least one"));
    }
    let (found, most) = (descriptors.len(), Plan::MAX_CHARGES);
    if found > most {
        let (found, most) = (format!("has {found} items"), format!("at most {most}"));
        return Err(GrpcRefusal::field("descriptors", &found, &most));
    }
    if !may_refund && descriptors.iter().any(|descriptor| descriptor.is_negative_hits) {
        return Err(GrpcRefusal::over_limit(RefusalReason::Forbidden, NO_REFUNDS));
    }
    let hits = u64::from(*hits_addend).max(1);
    let all = descriptors.iter().enumerate();
    all.map(|(index, one)| {
        DescriptorRequest::read(one, hits).map_err(|fault| fault.into_refusal(index))
    })
    .collect()
}

impl DescriptorRequest {
    fn read(descriptor: &RateLimitDescriptor, hits: u64) -> Result<Self, DescriptorFault> {
        check_entries(descriptor)?;
        let hits = descriptor.hits_addend.unwrap_or(hits);
        let cost = Cost::new(hits).map_err(|_| DescriptorFault {
            field: "hits_addend".to_owned(),
            problem: format!("is {hits}"),
            expected: format!("at most {MAX_COUNT}"),
        })?;
        let action = match (hits, descriptor.is_negative_hits) {
            (0, _) => DescriptorAction::Peek,
            (_, true) => DescriptorAction::Refund,
            (_, false) => DescriptorAction::Charge,
        };
        let limit = descriptor.limit.as_ref().map(limit).transpose()?;
        Ok(Self { action, cost, limit })
    }
}

fn check_entries(descriptor: &RateLimitDescriptor) -> Result<(), DescriptorFault> {
    let entries = &descriptor.entries;
    if entries.is_empty() {
        return Err(DescriptorFault::new("entries", "is empty", "at least one"));
    }
    if entries.len() > MAX_ENTRIES {
        let found = format!("has {} items", entries.len());
        return Err(DescriptorFault::new("entries", &found, &format!("at most {MAX_ENTRIES}")));
    }
    for (index, entry) in entries.iter().enumerate() {
        if entry.key.is_empty() {
            return Err(DescriptorFault::new(
                &format!("entries[{index}].key"),
                "is empty",
                "a name",
            ));
        }
    }
    Ok(())
}

/// Fixed windows, as in envoyproxy/ratelimit files: a month has 30 days, a year 365.
fn limit(given: &RateLimitOverride) -> Result<Limit, DescriptorFault> {
    let window = match given.unit() {
        RateLimitUnit::Second => Span::from_secs(1),
        RateLimitUnit::Minute => Span::from_secs(60),
        RateLimitUnit::Hour => Span::from_secs(3_600),
        RateLimitUnit::Day => Span::from_days(1),
        RateLimitUnit::Month => Span::from_days(30),
        RateLimitUnit::Year => Span::from_days(365),
        RateLimitUnit::Unknown => {
            let found = format!("is {}", given.unit);
            return Err(DescriptorFault::new(
                "limit.unit",
                &found,
                "SECOND, MINUTE, HOUR, DAY, MONTH or YEAR",
            ));
        }
    };
    Quota::new(given.requests_per_unit.into(), window)
        .and_then(|quota| Limit::new(AlgorithmKind::FixedWindow, &quota))
        .map_err(|error| DescriptorFault::new("limit", &error.to_string(), "a limit"))
}

/// What is wrong with a descriptor, without the descriptor's index.
struct DescriptorFault {
    field: String,
    problem: String,
    expected: String,
}

impl DescriptorFault {
    fn new(field: &str, problem: &str, expected: &str) -> Self {
        let [field, problem, expected] = [field, problem, expected].map(str::to_owned);
        Self { field, problem, expected }
    }

    #[cold]
    fn into_refusal(self, descriptor: usize) -> GrpcRefusal {
        let field = format!("descriptors[{descriptor}].{}", self.field);
        GrpcRefusal::field(&field, &self.problem, &self.expected)
    }
}

const NO_REFUNDS: &str = "is_negative_hits is set, but refunds are off: expected serve --allow \
    grpc:refund";
const MAX_ENTRIES: usize = Plan::MAX_ATTRIBUTES;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
        RateLimitRequest { domain: "edge".to_owned(), descriptors, hits_addend: 0 }
    }

    fn user() -> RateLimitDescriptor {
        RateLimitDescriptor::new([("user", "alice")])
    }

    fn refused(request: &RateLimitRequest) -> String {
        format!("{:?}", read(request, true).unwrap_err())
    }

    #[test]
    fn hits_come_from_the_descriptor_else_from_the_request_else_they_are_one() {
        let action_and_cost = |descriptor, hits_addend| {
            let read =
                read(&RateLimitRequest { hits_addend, ..request(vec![descriptor]) }, true).unwrap();
            (read[0].action, read[0].cost.get())
        };
        let with = |hits, is_negative_hits| RateLimitDescriptor {
            hits_addend: Some(hits),
            is_negative_hits,
            ..user()
        };
        assert_eq!(action_and_cost(user(), 0), (DescriptorAction::Charge, 1));
        assert_eq!(action_and_cost(user(), 7), (DescriptorAction::Charge, 7));
        assert_eq!(action_and_cost(with(3, false), 7), (DescriptorAction::Charge, 3));
        assert_eq!(action_and_cost(with(0, false), 7), (DescriptorAction::Peek, 0));
        assert_eq!(action_and_cost(with(3, true), 7), (DescriptorAction::Refund, 3));
        let negative = RateLimitDescriptor { is_negative_hits: true, ..user() };
        assert_eq!(action_and_cost(negative, 0), (DescriptorAction::Refund, 1));
    }

    #[test]
    fn refusals_name_the_field_the_value_and_what_was_expected() {
        let many = RateLimitDescriptor::new((0..65).map(|key| (key.to_string(), "")));
        let unit = RateLimitOverride { requests_per_unit: 1, unit: 9 };
        let unit = RateLimitDescriptor { limit: Some(unit), ..user() };
        let hits = RateLimitDescriptor { hits_addend: Some(u64::MAX), ..user() };
        for (descriptors, expected) in [
            (vec![], "descriptors is empty: expected at least one"),
            (vec![user(); 33], "descriptors has 33 items: expected at most 32"),
            (vec![user(), RateLimitDescriptor::default()], "descriptors[1].entries is empty"),
            (vec![RateLimitDescriptor::new([("", "x")])], "descriptors[0].entries[0].key is empty"),
            (vec![many], "descriptors[0].entries has 65 items: expected at most 64"),
            (vec![unit], "descriptors[0].limit.unit is 9: expected SECOND"),
            (vec![hits], "descriptors[0].hits_addend is 18446744073709551615"),
        ] {
            let refusal = refused(&request(descriptors));
            assert!(refusal.contains(expected), "{refusal}");
            assert!(refusal.contains("OverLimit(Malformed)"), "{refusal}");
        }
        let nameless = RateLimitRequest { domain: String::new(), ..request(vec![user()]) };
        assert!(refused(&nameless).contains("domain is empty: expected a name"));
        let negative = RateLimitDescriptor { is_negative_hits: true, ..user() };
        let refusal = read(&request(vec![user(), negative]), false).unwrap_err();
        assert_eq!((refusal.reason(), refusal.message()), (RefusalReason::Forbidden, NO_REFUNDS));
    }
}
