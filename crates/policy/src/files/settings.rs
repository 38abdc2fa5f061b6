//! Settings that a plan only carries along: they change how decisions are made, not the charges.

use std::fmt;

use tidegate_core::{KeyTemplate, Span};

use crate::SecretText;
use crate::file_choice;
use crate::files::normalise::IpNetwork;
use crate::files::requests::RequestRules;

pub(crate) use crate::store_terms::{OnStoreError, Precision};

file_choice! {
    /// Whether a policy is enforced.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum PolicyMode("mode", "ModeName", "The modes.") {
        /// Denials are enforced.
        #[default]
        Enforce = "enforce",
        /// Denials are counted and reported, but not enforced.
        Shadow = "shadow",
        /// The policy is ignored.
        Off = "off",
    }
}

file_choice!(
    @impl OnStoreError,
    "failure mode",
    "OnStoreErrorName",
    "What to do if the store does not answer."
);

file_choice! {
    /// The unit of `X-RateLimit-Reset`, for responses with `X-RateLimit-*` headers. Clients that expect
    /// one unit misread another, so the headers are sent only if a unit is configured.
    #[non_exhaustive]
    pub enum LegacyHeaders("unit", "LegacyHeadersName", "The units of X-RateLimit-Reset.") {
        /// Seconds from now.
        Seconds = "seconds",
        /// Milliseconds from now.
        Milliseconds = "milliseconds",
        /// Seconds since 1970.
        EpochSeconds = "epoch-seconds",
    }
}

file_choice! {
    /// Whether letter case matters in paths.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum PathCase("choice", "PathCaseName", "Whether letter case matters.") {
        /// `/Login` is another path than `/login`.
        #[default]
        Exact = "exact",
        /// They are the same path, as in Express and ASP.NET: ASCII letters match in either case.
        Ignore = "ignore",
    }
}

/// The settings of a configuration besides its policies.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PlanSettings {
    pub(crate) store: Option<String>,
    pub(crate) store_password: Option<SecretText>,
    pub(crate) store_deadline: Option<Span>,
    pub(crate) key_format: Option<KeyTemplate>,
    pub(crate) trusted_proxies: Vec<IpNetwork>,
    pub(crate) legacy_headers: Option<LegacyHeaders>,
    pub(crate) requests: RequestRules,
    pub(crate) is_rlaas: bool,
}

impl PlanSettings {
    /// Where counters are stored: `memory`, or the address of a Redis. It may hold a password.
    pub fn store(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// The password of the store, or where to find it.
    pub const fn store_password(&self) -> Option<&SecretText> {
        self.store_password.as_ref()
    }

    /// How long to wait for the store for limits without a policy (`defaults.store_deadline`).
    pub const fn store_deadline(&self) -> Span {
        match self.store_deadline {
            Some(deadline) => deadline,
            None => DEFAULT_DEADLINE,
        }
    }

    /// The template of keys in a store.
    pub const fn key_format(&self) -> Option<&KeyTemplate> {
        self.key_format.as_ref()
    }

    /// The proxies whose `X-Forwarded-For` is trusted.
    pub fn trusted_proxies(&self) -> &[IpNetwork] {
        &self.trusted_proxies
    }

    /// Whether responses carry `X-RateLimit-*` too, and in which unit.
    pub const fn legacy_headers(&self) -> Option<LegacyHeaders> {
        self.legacy_headers
    }

    /// The rules for requests that proxies and programs ask about (`http.requests`).
    pub const fn requests(&self) -> RequestRules {
        self.requests
    }

    /// Whether this was an RLaaS file, whose users also expect `GET /check?userId=`.
    pub const fn is_rlaas(&self) -> bool {
        self.is_rlaas
    }
}

/// Hides the address of the store, which may hold a password.
impl fmt::Debug for PlanSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanSettings").field("key_format", &self.key_format).finish_non_exhaustive()
    }
}

/// How long to wait for the store by default: half of Envoy's default timeout for rate limit
/// services, 20ms.
pub(crate) const DEFAULT_DEADLINE: Span = Span::from_millis(10);
