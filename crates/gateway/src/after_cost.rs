//! Costs that depend on the response. One unit was taken in advance; here the amount is corrected.

use http::HeaderMap;
use tidegate::{ChargeIntent, Cost, Decision, RequestCharges, Store};
use tidegate_server::App;

use crate::config::{GatewayPolicy, ResponseCostSource};
use crate::upstream::parse_digits;

/// The outcome of forwarding a request, as far as it matters for the cost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ForwardOutcome<'r> {
    /// The request was not sent: no service has worked on it.
    Unsent,
    /// The request was sent, and no response came. It is unknown what the service has done.
    Lost,
    /// The status and fields of the response.
    Response(u16, &'r HeaderMap),
}

/// Refunds the unit that was taken in advance, or takes the rest of the cost.
///
/// There is a refund only if the response says so, or if the service never got the request. If the
/// response is lost, the request costs as much as with a response that reports no cost. Otherwise a client
/// could save by aborting, or by sending requests that time out.
///
/// The request has already been served, so a cost that exceeds the quota takes all that is left. One
/// request can thus exceed the limit, and the next one is denied.
pub(crate) async fn correct_costs<S: Store>(
    app: &App<S>,
    charges: &RequestCharges<'_>,
    decision: &Decision,
    outcome: ForwardOutcome<'_>,
) {
    let mut last = None;
    for index in 0..charges.charges().len() {
        let Some(policy) = charges.policy(index).filter(|it| last != Some(it.name())) else {
            continue;
        };
        last = Some(policy.name());
        let Some(after) = GatewayPolicy::response_cost_of(policy) else { continue };
        let cost = response_cost(after, outcome);
        if cost == Cost::PEEK {
            // If the store does not answer, there is no refund: that errs on the strict side.
            let taken = charges.clone().with_cost(Cost::ONE);
            let _ = app.limiter().undo_for(policy.name(), &taken, decision).await;
            continue;
        }
        // A limit in shadow mode that had no room took nothing, so it takes no rest either.
        let is_in = |index: &usize| {
            charges.policy_name(*index) == Some(policy.name())
                && (decision.verdicts().is_empty() || decision.has_paid(charges.charges(), *index))
        };
        let charges = charges.subset((index..charges.charges().len()).filter(is_in));
        take_extra(app, &charges, cost.get() - 1).await;
        app.limiter().block_if_used_up(&charges).await;
    }
}

/// Bypasses the metrics and traces of [`App`]: the decision about this request was already counted.
async fn take_extra<S: Store>(app: &App<S>, charges: &RequestCharges<'_>, cost: u64) {
    let Some(cost) = Cost::new(cost).ok().filter(|cost| !cost.is_peek()) else { return };
    let extra = charges.clone().with_cost(cost);
    let _ = app.limiter().decide(&extra, ChargeIntent::TakeUpTo).await;
}

fn response_cost(after: &ResponseCostSource, outcome: ForwardOutcome<'_>) -> Cost {
    match (after, outcome) {
        (_, ForwardOutcome::Unsent) => Cost::PEEK,
        (ResponseCostSource::Header { default, .. }, ForwardOutcome::Lost)
            if !default.is_peek() =>
        {
            *default
        }
        (_, ForwardOutcome::Lost) => Cost::ONE,
        (ResponseCostSource::Status(statuses), ForwardOutcome::Response(status, _))
            if statuses.contains(status) =>
        {
            Cost::ONE
        }
        (ResponseCostSource::Header { name, default }, ForwardOutcome::Response(_, headers)) => {
            let reported = headers.get(name).and_then(|value| parse_digits(value.as_bytes()));
            reported.and_then(|units| Cost::new(units).ok()).unwrap_or(*default)
        }
        _ => Cost::PEEK,
    }
}
