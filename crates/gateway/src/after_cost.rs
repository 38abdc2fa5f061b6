//! Costs that only the response tells. One unit was taken before; here that is set right.

use http::HeaderMap;
use tidegate::config::gateway::ResponseCostSource;
use tidegate::{Cost, Decision, RequestCharges, Store};
use tidegate_server::App;

use crate::upstream::parse_digits;

/// What was seen of the response to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ForwardOutcome<'r> {
    /// The request has not left: nobody has worked on it.
    Unsent,
    /// It has left, and no response came. What the service has done is not known.
    Lost,
    /// Its status and its fields.
    Response(u16, &'r HeaderMap),
}

/// Gives back what was taken too much, and takes what was taken too little.
///
/// Something is given back only if the response says so, or if the service never got the request. If the
/// response is lost, the request has cost what a response without a word about it would have: otherwise
/// it would pay to break off, or to ask for what takes too long.
///
/// What has happened cannot be refused any more: of a cost that does not fit, as much is taken as
/// does. So one request may go past the limit, and the next one does not.
pub(crate) async fn correct_costs<S: Store>(
    app: &App<S>,
    owed: &RequestCharges<'_>,
    decision: &Decision,
    sight: ForwardOutcome<'_>,
) {
    let mut last = None;
    for index in 0..owed.charges().len() {
        let Some(policy) = owed.policy(index).filter(|it| last != Some(it.name())) else {
            continue;
        };
        last = Some(policy.name());
        let Some(after) = policy.response_cost() else { continue };
        let cost = response_cost(after, sight);
        if cost == Cost::PEEK {
            // A store that does not answer gives nothing back: that errs on the strict side.
            let taken = owed.clone().with_cost(Cost::ONE);
            let _ = app.limiter().undo_for(policy.name(), &taken, decision).await;
            continue;
        }
        // A limit that is only watched and had no room took nothing: to it there was no request.
        let is_in = |index: &usize| {
            owed.policy_name(*index) == Some(policy.name())
                && (decision.verdicts().is_empty() || decision.has_paid(owed.charges(), *index))
        };
        let owed = owed.subset((index..owed.charges().len()).filter(is_in));
        take_extra(app, &owed, cost.get() - 1).await;
        app.limiter().block_if_used_up(&owed).await;
    }
}

/// Past what [`App`] counts and traces: the request was decided about before, and this is no other.
async fn take_extra<S: Store>(app: &App<S>, owed: &RequestCharges<'_>, cost: u64) {
    let Some(cost) = Cost::new(cost).ok().filter(|cost| !cost.is_peek()) else { return };
    let decision = app.limiter().decide(&owed.clone().with_cost(cost)).await;
    let fits = decision.verdicts().iter().map(|verdict| verdict.remaining).min();
    if !decision.is_allowed()
        && let Some(most @ 1..) = fits
        && let Ok(most) = Cost::new(most)
    {
        let _ = app.limiter().decide(&owed.clone().with_cost(most)).await;
    }
}

fn response_cost(after: &ResponseCostSource, sight: ForwardOutcome<'_>) -> Cost {
    match (after, sight) {
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
            let said = headers.get(name).and_then(|value| parse_digits(value.as_bytes()));
            said.and_then(|units| Cost::new(units).ok()).unwrap_or(*default)
        }
        _ => Cost::PEEK,
    }
}
