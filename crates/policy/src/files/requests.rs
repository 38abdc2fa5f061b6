//! Which ambiguous requests are refused, and which of them an operator can allow.

use crate::file_choice;

/// The ambiguous parts of requests that are refused or allowed.
///
/// A limiter reads requests before the service does, and must read them the same way: otherwise it counts
/// one thing, and the service serves another. So by default, everything is refused that services are
/// known to read in two ways. Each method allows one of these parts, for a service that is known to read
/// it as we do.
///
/// ```
/// use tidegate::config::{PathParameters, RequestRules};
///
/// let rules = RequestRules::default().path_parameters(PathParameters::Ignore).keep_underscores();
/// assert!(!rules.keeps_encoded_slashes());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestRules {
    pub(crate) path_parameters: PathParameters,
    pub(crate) keeps_encoded_slashes: bool,
    pub(crate) keeps_underscores: bool,
    pub(crate) keeps_override_fields: bool,
    pub(crate) keeps_odd_cookies: bool,
    pub(crate) keeps_odd_queries: bool,
    pub(crate) refuses_other_schemes: bool,
}

file_choice! {
    /// What happens to a semicolon in a path and the text after it in its segment. For servlets that is a
    /// parameter and not part of the path; for most other services it is part of the path.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum PathParameters("choice", "PathParametersName", "What happens to path parameters.") {
        /// The request is refused.
        #[default]
        Refuse = "refuse",
        /// The parameter is removed, also from the request that a gateway forwards.
        Strip = "strip",
        /// The parameter is not matched or counted, but forwarded: for servlets that need it.
        Ignore = "ignore",
        /// The parameter is part of the path: for services without path parameters.
        Keep = "keep",
    }
}

impl RequestRules {
    /// Sets what happens to path parameters.
    #[must_use]
    pub const fn path_parameters(self, path_parameters: PathParameters) -> Self {
        Self { path_parameters, ..self }
    }

    /// Allows `%2F` and `%5C` in paths: the service does not treat them as slashes.
    #[must_use]
    pub const fn keep_encoded_slashes(self) -> Self {
        Self { keeps_encoded_slashes: true, ..self }
    }

    /// Allows `x_user` where a policy uses `x-user`: the service does not treat them as the same field.
    #[must_use]
    pub const fn keep_underscores(self) -> Self {
        Self { keeps_underscores: true, ..self }
    }

    /// Lets a gateway forward fields such as `X-Original-URL` and `X-HTTP-Method-Override`, by which a
    /// client can make some services use another path, method or address.
    #[must_use]
    pub const fn keep_override_fields(self) -> Self {
        Self { keeps_override_fields: true, ..self }
    }

    /// Counts cookies byte by byte, and allows quotes and the like in them.
    #[must_use]
    pub const fn keep_odd_cookies(self) -> Self {
        Self { keeps_odd_cookies: true, ..self }
    }

    /// Allows `;`, `user[]` and the like in queries of which a policy uses `user`.
    #[must_use]
    pub const fn keep_odd_queries(self) -> Self {
        Self { keeps_odd_queries: true, ..self }
    }

    /// Refuses an `Authorization` that is not a bearer token.
    #[must_use]
    pub const fn refuse_other_schemes(self) -> Self {
        Self { refuses_other_schemes: true, ..self }
    }

    /// What happens to path parameters.
    pub const fn on_path_parameters(&self) -> PathParameters {
        self.path_parameters
    }

    /// Whether `%2F` and `%5C` are allowed.
    pub const fn keeps_encoded_slashes(&self) -> bool {
        self.keeps_encoded_slashes
    }

    /// Whether underscores and hyphens in field names are different.
    pub const fn keeps_underscores(&self) -> bool {
        self.keeps_underscores
    }

    /// Whether a gateway forwards fields that override a path, method or address.
    pub const fn keeps_override_fields(&self) -> bool {
        self.keeps_override_fields
    }

    /// Whether cookies are counted byte by byte.
    pub const fn keeps_odd_cookies(&self) -> bool {
        self.keeps_odd_cookies
    }

    /// Whether ambiguous queries are allowed.
    pub const fn keeps_odd_queries(&self) -> bool {
        self.keeps_odd_queries
    }

    /// Whether an `Authorization` that is not a bearer token is refused.
    pub const fn refuses_other_schemes(&self) -> bool {
        self.refuses_other_schemes
    }
}
