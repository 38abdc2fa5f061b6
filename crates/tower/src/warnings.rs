//! The layer's warnings for developers about a likely mistake. Each is printed once, and not with
//! every request.

use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use tidegate_limiter::notice;

/// The warnings that requests can cause, each with a flag: whether it was already printed.
#[derive(Debug, Default)]
pub(crate) struct LayerWarnings {
    forwarded: AtomicBool,
    no_address: AtomicBool,
    /// Whether the plan behind the layer was checked.
    plan: AtomicBool,
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

    /// Prints what is likely wrong with the plan, when the first service is made.
    pub(crate) fn warn_of_plan(&self, warnings: impl FnOnce() -> Vec<String>) {
        if !self.plan.swap(true, Ordering::Relaxed) {
            warnings().iter().for_each(|text| notice(text));
        }
    }

    #[cfg(test)]
    pub(crate) fn has_missed_a_proxy(&self) -> bool {
        self.forwarded.load(Ordering::Relaxed)
    }
}

fn warn_once(is_printed: &AtomicBool, text: &str) {
    if !is_printed.swap(true, Ordering::Relaxed) {
        notice(text);
    }
}

const FORWARDED: &str = "X-Forwarded-For arrives and no proxy is trusted: clients are counted by the \
     connecting address. Behind a proxy, use RequestKey::client_ip().trust_hops(1); without one, \
     trust_hops(0)";
const NO_ADDRESS: &str = "the server does not provide the peer's address, so these requests share one \
     counter. In axum, serve with into_make_service_with_connect_info::<SocketAddr>()";

#[cfg(test)]
mod tests {
    use super::*;

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
