//! Costs that only the response tells. One unit was taken before; here that is set right.

use http::HeaderMap;
use tidegate::config::gateway::AfterCost;
use tidegate::{Cost, Decision, Owed, Store};
use tidegate_server::App;

use crate::upstream::digits;

/// Gives back what was taken too much, and takes what was taken too little. Without a response
/// nothing was delivered, and no attempt has failed by its status: all is given back.
///
/// What has happened cannot be refused any more: of a cost that does not fit, as much is taken as
/// does. So one request may go past the limit, and the next one does not.
pub(crate) async fn settle<S: Store>(
    app: &App<S>,
    owed: &Owed<'_>,
    decision: &Decision,
    response: Option<(u16, &HeaderMap)>,
) {
    let mut last = None;
    for index in 0..owed.charges().len() {
        let Some(policy) = owed.policy(index).filter(|it| last != Some(it.name())) else {
            continue;
        };
        last = Some(policy.name());
        let Some(after) = policy.after_cost() else { continue };
        let cost = response.map_or(Cost::PEEK, |(status, headers)| cost(after, status, headers));
        if cost == Cost::PEEK {
            // A store that does not answer gives nothing back: that errs on the strict side.
            let taken = owed.clone().costing(Cost::ONE);
            let _ = app.limiter().undo_for(policy.name(), &taken, decision).await;
            continue;
        }
        // A limit that is only watched and had no room took nothing: to it there was no request.
        let is_in = |index: &usize| {
            owed.policy_name(*index) == Some(policy.name())
                && decision.verdicts().get(*index).is_none_or(|verdict| verdict.allowed)
        };
        let owed = owed.part((index..owed.charges().len()).filter(is_in));
        take(app, &owed, cost.get() - 1).await;
        app.limiter().block_if_used_up(&owed).await;
    }
}

/// Past what [`App`] counts and traces: the request was decided about before, and this is no other.
async fn take<S: Store>(app: &App<S>, owed: &Owed<'_>, cost: u64) {
    let Some(cost) = Cost::new(cost).ok().filter(|cost| !cost.is_peek()) else { return };
    let decision = app.limiter().settle(&owed.clone().costing(cost)).await;
    let fits = decision.verdicts().iter().map(|verdict| verdict.remaining).min();
    if !decision.is_allowed()
        && let Some(most @ 1..) = fits
        && let Ok(most) = Cost::new(most)
    {
        let _ = app.limiter().settle(&owed.clone().costing(most)).await;
    }
}

fn cost(after: &AfterCost, status: u16, headers: &HeaderMap) -> Cost {
    match after {
        AfterCost::Status(statuses) if statuses.contains(status) => Cost::ONE,
        AfterCost::Header { name, default } => {
            let said = headers.get(name).and_then(|value| digits(value.as_bytes()));
            said.and_then(|units| Cost::new(units).ok()).unwrap_or(*default)
        }
        _ => Cost::PEEK,
    }
}
