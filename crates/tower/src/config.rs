//! The configuration of a layer, and how its services apply it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use tidegate_http::RateLimitFields;
use tidegate_limiter::config::RequestRules;
use tidegate_limiter::{Cost, Decision, DecisionSource, MAX_COUNT};

use crate::backend::{ImmediateOutcome, LayerBackend, LayerDecision, PreparedResponse};
use crate::key::{KeyContext, KeyForm};
use crate::layer_file::LayerFile;
use crate::waiting::LayerWaiting;
use crate::warnings::LayerWarnings;
use crate::{Denial, RequestHead, RequestKey, ResponseHead};

pub(crate) type CostFunction = Arc<dyn Fn(RequestHead<'_>) -> u64 + Send + Sync>;
pub(crate) type SkipFunction = Arc<dyn Fn(RequestHead<'_>) -> bool + Send + Sync>;
pub(crate) type CountFunction = Arc<dyn Fn(ResponseHead<'_>) -> bool + Send + Sync>;
pub(crate) type DenialFunction = Arc<dyn Fn(Denial<'_>) -> Response<Bytes> + Send + Sync>;
pub(crate) type ResponseCostFunction = Arc<dyn Fn(ResponseHead<'_>) -> Option<u64> + Send + Sync>;
pub(crate) type ObserveFunction = Arc<dyn Fn(RequestHead<'_>, &Decision) + Send + Sync>;

/// The configuration that a layer, its clones and its services share.
#[derive(Clone)]
pub(crate) struct LayerConfig {
    pub(crate) backend: Arc<dyn LayerBackend>,
    pub(crate) key: RequestKey,
    pub(crate) attributes: Vec<(Box<str>, RequestKey)>,
    pub(crate) cost: Option<CostFunction>,
    pub(crate) skip: Option<SkipFunction>,
    pub(crate) count_if: Option<CountFunction>,
    pub(crate) response_cost: Option<ResponseCostFunction>,
    /// The queues of denied requests, if they wait.
    pub(crate) waiting: Option<Arc<LayerWaiting>>,
    pub(crate) on_denied: Option<DenialFunction>,
    pub(crate) observe: Option<ObserveFunction>,
    /// How requests are read, if it was set on the layer; otherwise the plan decides.
    pub(crate) requests: Option<RequestRules>,
    pub(crate) is_shadow: bool,
    pub(crate) has_fields: bool,
    /// Whether requests carry their decision in the extensions.
    pub(crate) has_decision: bool,
    /// Whether requests are limited at all.
    pub(crate) is_enabled: bool,
    /// The policy file behind it, if the layer has read one.
    pub(crate) file: Option<LayerFile>,
    pub(crate) warnings: Arc<LayerWarnings>,
}

impl LayerConfig {
    pub(crate) fn new(backend: Arc<dyn LayerBackend>) -> Self {
        Self {
            backend,
            key: RequestKey::client_ip(),
            attributes: Vec::new(),
            cost: None,
            skip: None,
            count_if: None,
            response_cost: None,
            waiting: None,
            on_denied: None,
            observe: None,
            requests: None,
            is_shadow: false,
            has_fields: true,
            has_decision: true,
            is_enabled: true,
            file: None,
            warnings: Arc::default(),
        }
    }

    /// Whether responses to allowed requests carry `RateLimit` fields.
    pub(crate) const fn describes_allowed(&self) -> bool {
        self.has_fields && !self.is_shadow
    }

    /// Whether a decision to allow has no consumer at all, and is never undone later.
    pub(crate) const fn is_silent(&self) -> bool {
        !self.describes_allowed()
            && !self.has_decision
            && self.observe.is_none()
            && !self.is_counted_later()
    }

    /// Whether the response decides if a request counts, or what it costs.
    pub(crate) const fn is_counted_later(&self) -> bool {
        self.count_if.is_some() || self.response_cost.is_some()
    }

    pub(crate) fn skips(&self, head: &RequestHead<'_>) -> bool {
        !self.is_enabled || self.skip.as_ref().is_some_and(|skip| skip(*head))
    }

    /// Decides about a request without waiting, if possible. A request that may have to wait for its turn must not
    /// overtake others.
    #[inline(always)]
    pub(crate) fn try_decide(
        &self,
        head: &RequestHead<'_>,
        decided: &mut LayerDecision,
    ) -> ImmediateOutcome {
        if self.waiting.is_none() {
            return self.backend.try_decide(head, self, decided);
        }
        match self.backend.prepare(head, self) {
            Ok(Some(check)) => ImmediateOutcome::Pending(check),
            Ok(None) => ImmediateOutcome::Pass,
            Err(fault) => ImmediateOutcome::Ambiguous(fault),
        }
    }

    pub(crate) fn key_context<'a>(&'a self, head: &'a RequestHead<'a>) -> KeyContext<'a> {
        let (warnings, is_strict) = (&self.warnings, !self.is_shadow);
        let rules = self.requests.unwrap_or_default();
        KeyContext { head, warnings, is_strict, rules, form: KeyForm::Parts }
    }

    /// Adds a decision without a limit to a request that is not limited.
    pub(crate) fn mark_unlimited<B>(&self, request: &mut Request<B>) {
        if self.has_decision {
            request.extensions_mut().insert(Decision::without_verdicts(true, DecisionSource::None));
        }
    }

    /// The cost of a request. A cost beyond [`MAX_COUNT`] becomes one that fits no limit.
    pub(crate) fn cost_of(&self, head: &RequestHead<'_>) -> Cost {
        self.cost.as_ref().map_or(Cost::ONE, |cost| capped_cost(cost(*head)))
    }

    /// What a response costs, if it says so.
    pub(crate) fn cost_of_response(&self, response: ResponseHead<'_>) -> Option<Cost> {
        self.response_cost.as_ref()?(response).map(capped_cost)
    }

    /// Admits a request with its decision, and returns the fields for its response; or returns the
    /// denial.
    #[inline(always)]
    pub(crate) fn admit<B>(
        &self,
        decision: Decision,
        prepared: PreparedResponse,
        request: &mut Request<B>,
    ) -> Result<Option<RateLimitFields>, Box<Response<Bytes>>> {
        let PreparedResponse { fields, denial } = prepared;
        let head = RequestHead::of(request);
        if let Some(observe) = &self.observe {
            observe(head, &decision);
        }
        match denial {
            Some(response) if !self.is_shadow => {
                let denial = Denial::new(head, &decision, *response);
                Err(Box::new(self.deny(denial, fields)))
            }
            _ => {
                if self.has_decision {
                    request.extensions_mut().insert(decision);
                }
                Ok(self.describes_allowed().then_some(fields))
            }
        }
    }

    fn deny(&self, denial: Denial<'_>, fields: RateLimitFields) -> Response<Bytes> {
        let mut response = match &self.on_denied {
            Some(on_denied) => on_denied(denial),
            None => denial.into_response(),
        };
        let headers = response.headers_mut();
        if self.has_fields {
            fields.insert_into(headers);
        } else {
            headers.remove("ratelimit");
            headers.remove("ratelimit-policy");
            fields.only_retry_after().insert_into(headers);
        }
        response
    }

    /// Whether a request counts, by its response.
    pub(crate) fn counts(&self, response: ResponseHead<'_>) -> bool {
        self.count_if.as_ref().is_none_or(|counts| counts(response))
    }
}

fn capped_cost(units: u64) -> Cost {
    let most = || Cost::new(MAX_COUNT).map_or(Cost::ONE, |most| most.plus(Cost::ONE));
    Cost::new(units).unwrap_or_else(|_| most())
}

impl fmt::Debug for LayerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerConfig")
            .field("key", &self.key)
            .field("is_shadow", &self.is_shadow)
            .finish_non_exhaustive()
    }
}
