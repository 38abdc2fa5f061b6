//! The limiter of one policy as a backend: it counts by a key.

use std::sync::Arc;

use tidegate_http::{CachedPolicyHeader, RateLimitAnswer, RequestFault};
use tidegate_limiter::{Cost, Decision, Fingerprint, Key, Limiter, Store};

use super::{
    BorrowedFuture, BoxedFuture, CostDifference, ImmediateOutcome, LayerBackend, LayerCheck,
    LayerDecision, LayerSubject, PreparedCheck,
};
use crate::RequestHead;
use crate::config::LayerConfig;

/// A backend that counts by a key.
pub(super) struct KeyedBackend<S> {
    limiter: Arc<Limiter<S>>,
    policy_headers: Vec<&'static CachedPolicyHeader>,
    names_keys: bool,
}

impl<S: Store> KeyedBackend<S> {
    pub(super) fn new(limiter: Arc<Limiter<S>>) -> Self {
        let policy_headers = CachedPolicyHeader::each_of(limiter.policy());
        let names_keys = limiter.store().profile().names_keys;
        Self { limiter, policy_headers, names_keys }
    }

    #[inline(always)]
    fn caller(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
    ) -> Result<Option<LayerCaller>, RequestFault> {
        let context = config.key_context(head);
        let Some(fingerprint) = config.key.fingerprint(context, self.limiter.policy())? else {
            return Ok(None);
        };
        let name = match self.names_keys {
            true => config.key.name(context)?.map(Into::into),
            false => None,
        };
        Ok(Some(LayerCaller { fingerprint, name }))
    }

    #[inline(always)]
    fn describe(&self, decided: &mut LayerDecision, check: &LayerCheck) {
        let answer = RateLimitAnswer::of_policy(self.limiter.policy(), &decided.decision);
        decided.response.describe(&answer.with_policy_headers(&self.policy_headers), check);
    }
}

impl<S: Store + 'static> LayerBackend for KeyedBackend<S> {
    fn prepare(&self, head: &RequestHead<'_>, config: &LayerConfig) -> PreparedCheck {
        let Some(key) = self.caller(head, config)? else { return Ok(None) };
        Ok(Some(LayerCheck::new(LayerSubject::Key(key), config.cost_of(head), config)))
    }

    fn try_decide(
        &self,
        head: &RequestHead<'_>,
        config: &LayerConfig,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome {
        let key = match self.caller(head, config) {
            Ok(Some(key)) => key,
            Ok(None) => return ImmediateOutcome::Pass,
            Err(fault) => return ImmediateOutcome::Ambiguous(fault),
        };
        let cost = config.cost_of(head);
        let is_decided = self.limiter.try_check_into(&key, cost, &mut decided.decision);
        if is_decided && decided.decision.is_allowed() && config.is_silent() {
            return ImmediateOutcome::Pass;
        }
        let check = LayerCheck::new(LayerSubject::Key(key), cost, config);
        if !is_decided {
            return ImmediateOutcome::Pending(check);
        }
        self.describe(decided, &check);
        decided.check = check.kept_for_response();
        ImmediateOutcome::Decided
    }

    fn decide<'a>(&'a self, check: &'a LayerCheck) -> BorrowedFuture<'a, LayerDecision> {
        Box::pin(async move {
            let mut decided = LayerDecision::nothing();
            if let Some(key) = check.key() {
                decided.decision = self.limiter.check_n(key, check.cost).await;
                self.describe(&mut decided, check);
            }
            decided
        })
    }

    fn undo(self: Arc<Self>, check: LayerCheck, decision: Decision) -> BoxedFuture<()> {
        Box::pin(async move {
            if let Some(key) = check.key() {
                // If the store does not answer, the units stay taken.
                let _ = self.limiter.undo(key, check.cost, &decision).await;
            }
        })
    }

    fn correct(
        self: Arc<Self>,
        check: LayerCheck,
        decision: Decision,
        cost: Cost,
    ) -> BoxedFuture<()> {
        Box::pin(async move {
            let Some(key) = check.key() else { return };
            match check.difference_to(cost) {
                CostDifference::None => {}
                CostDifference::Less(unused) => {
                    let _ = self.limiter.undo(key, unused, &decision).await;
                }
                CostDifference::More(extra) => {
                    let taken = self.limiter.check_n(key, extra).await;
                    if let Some(rest) = taken.largest_part() {
                        let _ = self.limiter.check_n(key, rest).await;
                    }
                }
            }
        })
    }

    fn confirm(self: Arc<Self>, _: LayerCheck, _: Decision) -> Option<BoxedFuture<()>> {
        None
    }
}

/// The caller's fingerprint, and its name if the store stores keys by name.
#[derive(Debug)]
pub(super) struct LayerCaller {
    fingerprint: Fingerprint,
    name: Option<Box<str>>,
}

impl LayerCaller {
    pub(super) const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl Key for LayerCaller {
    fn each_part(&self, part: impl FnMut(&[u8])) {
        self.fingerprint.each_part(part);
    }

    #[inline]
    fn known(&self) -> Option<Fingerprint> {
        Some(self.fingerprint)
    }

    fn text(&self) -> Option<String> {
        self.name.as_deref().map(str::to_owned)
    }
}
