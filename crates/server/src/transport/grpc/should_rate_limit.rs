//! `ShouldRateLimit`: the call that decides about descriptors.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate::config::Descriptor;
use tidegate::{Rule, Store};
use tidegate_wire::envoy::{RateLimitRequest, RateLimitResponse};

use super::decision::decide;
use super::refusal::GrpcRefusal;
use super::{GrpcOptions, answer, request};
use crate::{App, ClientRight, Transport};

pub(super) async fn answer<S: Store>(
    app: &App<S>,
    options: GrpcOptions,
    message: &RateLimitRequest,
) -> Result<RateLimitResponse, GrpcRefusal> {
    let may_refund = app.permits(Transport::Grpc, ClientRight::Refund);
    let requests = request::read(message, may_refund)?;
    // Load the plan once: the whole response must use one plan, even if another is loaded meanwhile.
    let plan = app.limiter().plan();
    // A value that is not UTF-8 still gets a counter. Values whose lossy forms are equal share it.
    let all = || message.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    let values: SmallVec<[Cow<'_, str>; 4]> =
        all().map(|entry| String::from_utf8_lossy(&entry.value)).collect();
    let entries: SmallVec<[(&str, &str); 4]> =
        all().zip(&values).map(|(entry, value)| (entry.key.as_str(), &**value)).collect();
    let rules: SmallVec<[Option<Rule>; 4]> = requests
        .iter()
        .map(|request| request.limit.map(|limit| plan.override_rule(limit)))
        .collect();
    let mut rest = &entries[..];
    let mut descriptors: SmallVec<[Descriptor<'_>; 4]> = SmallVec::new();
    for ((descriptor, request), rule) in message.descriptors.iter().zip(&requests).zip(&rules) {
        let (entries, others) = rest.split_at(descriptor.entries.len().min(rest.len()));
        rest = others;
        descriptors.push(Descriptor { entries, cost: request.cost, limit: rule.as_ref() });
    }
    let charges = plan.descriptor_charges(&message.domain, &descriptors);
    let decision = decide(app, &charges, &requests, options.charge_each).await;
    Ok(answer::envoy_response(&charges, &decision))
}
