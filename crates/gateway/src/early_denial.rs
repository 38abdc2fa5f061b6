//! Denials that need no token. Whoever is over a limit anyway is told so before a signature is verified:
//! a flood of forged tokens would otherwise cost more than one without.

use tidegate::config::{PlannedPolicy, Precision};
use tidegate::{Decision, RequestCharges, Store};
use tidegate_server::App;

/// The limits that need no claim and deny, and the denial. `None` where it takes a token to tell, or more
/// than a look at what is here. Then nothing was taken, and the request is decided about as a whole.
pub(crate) async fn deny_without_token<'p, S: Store>(
    app: &App<S>,
    owed: &RequestCharges<'p>,
) -> Option<(RequestCharges<'p>, Decision)> {
    // Both depend on all policies.
    if owed.cost_fault().is_some() || owed.exceeds_max_charges() {
        return None;
    }
    let needs_no_claim = |it: &usize| owed.policy(*it).is_some_and(|it| !it.uses_claims());
    let owed = owed.subset((0..owed.charges().len()).filter(needs_no_claim));
    if owed.is_empty() || !is_denied(app, &owed).await {
        return None;
    }
    let attempt = app.attempt(&owed).await;
    if !attempt.decision().is_allowed() {
        let decision = app.conclude(&owed, attempt);
        return Some((owed, decision));
    }
    // There is room by now. What was taken is taken again together with all else, and counted then.
    let _ = app.limiter().undo(&owed, attempt.decision()).await;
    None
}

/// Whether nothing is left, as far as that shows without asking a store elsewhere.
async fn is_denied<S: Store>(app: &App<S>, owed: &RequestCharges<'_>) -> bool {
    let policies = || (0..owed.charges().len()).filter_map(|index| owed.policy(index));
    // Those who wait in line are not denied yet.
    if policies().any(|policy| policy.max_wait().is_some()) {
        return false;
    }
    if !app.limiter().is_remote() {
        return !app.limiter().peek(owed).await.is_allowed();
    }
    // A denial that is remembered. A lease would be taken from.
    let is_leased = |policy: &PlannedPolicy| matches!(policy.precision(), Precision::Leased { .. });
    if policies().any(is_leased) {
        return false;
    }
    let remembered = app.limiter().try_decide(owed);
    remembered.is_some_and(|decision| !decision.is_allowed())
}
