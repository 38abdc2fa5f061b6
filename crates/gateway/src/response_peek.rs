//! How it stands with the limits of a request once its response is there.

use tidegate::{Cost, Decision, RequestCharges, Store};
use tidegate_server::App;

/// A look at them, if a cost that only the response tells has changed them since the decision. It is
/// neither counted nor traced: nobody has asked.
pub(crate) async fn peek_after_cost<S: Store>(
    app: &App<S>,
    owed: &RequestCharges<'_>,
) -> Option<Decision> {
    let mut policies = (0..owed.charges().len()).filter_map(|index| owed.policy(index));
    policies.find(|policy| policy.response_cost().is_some())?;
    let decision = app.limiter().decide(&owed.clone().with_cost(Cost::PEEK)).await;
    // Whoever is blocked by now was allowed this time, and is told so.
    Some(decision).filter(Decision::is_allowed)
}
