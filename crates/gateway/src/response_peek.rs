//! The state of a request's limits after its response has changed the cost.

use tidegate::{ChargeIntent, Cost, Decision, RequestCharges, Store};
use tidegate_server::App;

/// Peeks at the limits if the cost of a policy depends on the response. The peek is neither counted nor
/// traced, because it is not a check of the client's.
pub(crate) async fn peek_after_cost<S: Store>(
    app: &App<S>,
    charges: &RequestCharges<'_>,
) -> Option<Decision> {
    let mut policies = (0..charges.charges().len()).filter_map(|index| charges.policy(index));
    policies.find(|policy| policy.is_counted_later())?;
    let peeks = charges.clone().with_cost(Cost::PEEK);
    let decision = app.limiter().decide(&peeks, ChargeIntent::Take).await;
    // If the caller is blocked by now, the response shows the original decision: it was allowed.
    Some(decision).filter(Decision::is_allowed)
}
