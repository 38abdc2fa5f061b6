//! Costs that only the response tells. One unit was taken before; here that is set right.

use http::HeaderMap;
use tidegate::config::gateway::AfterCost;
use tidegate::{Cost, Owed, Store};
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
        match cost.get() {
            0 => {
                // A store that does not answer gives nothing back: that errs on the strict side.
                let one = owed.to_policy(policy.name(), Cost::ONE);
                let _ = app.limiter().refund(&one).await;
            }
            1 => {}
            cost => take(app, owed, policy.name(), cost - 1).await,
        }
    }
}

/// Past what [`App`] counts and traces: the request was decided about before, and this is no other.
async fn take<S: Store>(app: &App<S>, owed: &Owed<'_>, policy: &str, cost: u64) {
    let Ok(cost) = Cost::new(cost) else { return };
    let rest = owed.to_policy(policy, cost);
    let decision = app.limiter().settle(&rest).await;
    let fits = decision.verdicts().iter().map(|verdict| verdict.remaining).min();
    if !decision.is_allowed()
        && let Some(most @ 1..) = fits
        && let Ok(most) = Cost::new(most)
    {
        let _ = app.limiter().settle(&owed.to_policy(policy, most)).await;
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
