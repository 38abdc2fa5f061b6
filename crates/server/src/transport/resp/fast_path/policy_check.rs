//! Checks and peeks of a policy for which the key alone determines the charge.

use tidegate::config::SingleLimit;
use tidegate::{Charge, Cost, Plan, RequestCharges};

use super::super::policies::lone_key;

/// A check or peek that depends only on the key, to be repeated for other keys.
#[derive(Debug)]
pub(in crate::transport::resp) struct RespPolicyCheck {
    limit: SingleLimit,
    cost: Cost,
}

impl RespPolicyCheck {
    /// From a command whose third word is the key, and its charges.
    pub(in crate::transport::resp) fn of(
        charges: &RequestCharges<'_>,
        words: &[&[u8]],
        plan: &Plan,
    ) -> Option<Self> {
        let ([charge], Some(_)) = (charges.charges(), lone_key(words.get(2..)?)) else {
            return None;
        };
        if !charge.rule().enforced {
            return None;
        }
        let limit = SingleLimit::find(plan, charges.policy_name(0)?)?;
        Some(Self { limit, cost: charge.cost() })
    }

    pub(super) const fn is_peek(&self) -> bool {
        self.cost.is_peek()
    }

    /// A key's charge; `None` if the key has several limits of its own, or none.
    #[inline]
    pub(super) fn charge<'p>(&self, key: &[u8], plan: &'p Plan) -> Option<Charge<'p>> {
        self.limit.charge(key, self.cost, plan).filter(|charge| charge.rule().enforced)
    }
}
