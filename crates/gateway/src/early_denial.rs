//! Denials that do not depend on the token. They come before the signature is verified: otherwise a flood
//! of forged tokens would cost more than a flood without tokens.

use tidegate::config::{PlannedPolicy, Precision};
use tidegate::{ChargeIntent, Decision, RequestCharges, Store};
use tidegate_server::App;

use crate::config::GatewayPolicy;

/// The charges that do not depend on claims, and their denial. `None` if they do not deny, or if finding
/// out would take more than local state. Then nothing was taken, and the request is decided as a whole.
pub(crate) async fn deny_without_token<'p, S: Store>(
    app: &App<S>,
    charges: &RequestCharges<'p>,
) -> Option<(RequestCharges<'p>, Decision)> {
    // Both depend on all policies, including those with claims.
    if charges.cost_fault().is_some() || charges.exceeds_max_charges() {
        return None;
    }
    let needs_no_claim = |it: &usize| charges.policy(*it).is_some_and(|it| !uses_claims(it));
    let charges = charges.subset((0..charges.charges().len()).filter(needs_no_claim));
    if charges.is_empty() || !is_denied(app, &charges).await {
        return None;
    }
    // If there is room by now, the charges are taken and counted with all the others later.
    let decision = app.decide(&charges, ChargeIntent::DenyOnly).await;
    (!decision.is_allowed()).then_some((charges, decision))
}

/// Whether a limit is used up, as far as that is known without a request to a remote store.
async fn is_denied<S: Store>(app: &App<S>, charges: &RequestCharges<'_>) -> bool {
    let policies = || (0..charges.charges().len()).filter_map(|index| charges.policy(index));
    // A request that can wait in a queue is not denied yet.
    if policies().any(|policy| GatewayPolicy::max_wait_of(policy).is_some()) {
        return false;
    }
    if !app.limiter().is_remote() {
        return !app.limiter().decide(charges, ChargeIntent::Peek).await.is_allowed();
    }
    // Only a cached denial counts below. A lease would be taken from.
    let is_leased = |policy: &PlannedPolicy| matches!(policy.precision(), Precision::Leased { .. });
    if policies().any(is_leased) {
        return false;
    }
    let remembered = app.limiter().decide(charges, ChargeIntent::Take).ready();
    remembered.is_some_and(|decision| !decision.is_allowed())
}

fn uses_claims(policy: &PlannedPolicy) -> bool {
    GatewayPolicy::of(policy).is_some_and(|policy| policy.uses_claims)
}
