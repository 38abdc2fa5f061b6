//! The layer's warnings for developers about a likely mistake. Each is printed once, and not with
//! every request.

use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use tidegate_limiter::Plan;
use tidegate_limiter::config::PlannedPolicy;

/// The warnings that requests can cause, each with a flag: whether it was already printed.
#[derive(Debug, Default)]
pub(crate) struct LayerWarnings {
    forwarded: AtomicBool,
    no_address: AtomicBool,
}

impl LayerWarnings {
    /// Warns if `X-Forwarded-For` arrives. Called only if the layer was not told which hops to
    /// trust: it may be limiting a proxy instead of the clients.
    pub(crate) fn warn_if_forwarded(&self, headers: &HeaderMap) {
        // The flag first: it is cheaper to check than the header.
        if !self.forwarded.load(Ordering::Relaxed) && headers.contains_key("x-forwarded-for") {
            warn_once(&self.forwarded, FORWARDED);
        }
    }

    /// Warns that a request came without its peer's address.
    pub(crate) fn warn_no_address(&self) {
        warn_once(&self.no_address, NO_ADDRESS);
    }

    #[cfg(test)]
    pub(crate) fn has_missed_a_proxy(&self) -> bool {
        self.forwarded.load(Ordering::Relaxed)
    }
}

/// Warns about policies of a plan with fields that only the gateway applies.
pub(crate) fn warn_about_plan(plan: &Plan) {
    if let Some(text) = gateway_only_warning(plan) {
        warn(&text);
    }
}

fn gateway_only_warning(plan: &Plan) -> Option<String> {
    // In a file, `max_wait` belongs to `on_denied: wait`.
    let is_gateway_only = |policy: &&PlannedPolicy| {
        policy.response_cost().is_some() || policy.max_wait().is_some() || policy.denied().is_some()
    };
    let names: Vec<_> =
        plan.policies().iter().filter(is_gateway_only).map(PlannedPolicy::name).collect();
    (!names.is_empty()).then(|| format!("{}: {GATEWAY_ONLY}", names.join(", ")))
}

fn warn_once(is_printed: &AtomicBool, text: &str) {
    if !is_printed.swap(true, Ordering::Relaxed) {
        warn(text);
    }
}

#[cfg(feature = "tracing")]
fn warn(text: &str) {
    tracing::warn!("{text}");
}

#[cfg(not(feature = "tracing"))]
fn warn(text: &str) {
    use std::io::Write as _;

    // A closed standard error is not a reason to fail.
    let _ = writeln!(std::io::stderr(), "tidegate: {text}");
}

const FORWARDED: &str = "X-Forwarded-For arrives and no proxy is trusted: clients are counted by the \
     connecting address. Behind a proxy, use RequestKey::client_ip().trust_hops(1); without one, \
     trust_hops(0)";
const NO_ADDRESS: &str = "the server does not provide the peer's address, so these requests share one \
     counter. In axum, serve with into_make_service_with_connect_info::<SocketAddr>()";

const GATEWAY_ONLY: &str = "costs from the response, on_denied and denied apply in the gateway only; here, \
     use RateLimitLayer::count_if and on_denied";

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_limiter::config::PolicySource;

    #[test]
    fn what_only_the_gateway_obeys_is_named() {
        let plan = |fields: &str| {
            let text = format!("policies: [{{ name: login, key: [], limits: [5/m]{fields} }}]");
            Plan::compile(&PolicySource::new("test", text).unwrap()).unwrap()
        };
        assert_eq!(gateway_only_warning(&plan("")), None);
        let said = gateway_only_warning(&plan(", cost: { response_status: [401] }")).unwrap();
        assert!(said.starts_with("login: "), "{said}");
    }

    #[test]
    fn a_proxy_is_missed_once() {
        let warnings = LayerWarnings::default();
        let mut headers = HeaderMap::new();
        warnings.warn_if_forwarded(&headers);
        assert!(!warnings.has_missed_a_proxy());
        headers.insert("x-forwarded-for", "203.0.113.9".parse().unwrap());
        warnings.warn_if_forwarded(&headers);
        assert!(warnings.has_missed_a_proxy());
    }
}
