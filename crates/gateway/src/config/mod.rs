//! The gateway's section of the policy file: as it is written (`file`), what it means (`compile`), and the
//! result, which is only data.

mod compile;
mod file;
mod response;
mod upstream;

use std::path::PathBuf;

pub use response::{DeniedResponse, ResponseCostSource, StatusSet};
use tidegate::config::{PlannedPolicy, RequestRules, SecretText};
use tidegate::{Attributes, Span};
use tidegate_policy::section::{ConditionList, Sections, file_choice};
pub use upstream::{
    HealthCheck, UploadRules, UpstreamPlan, UpstreamScheme, UpstreamTimeouts, UpstreamUrl,
};

/// The section `gateway` of a policy file, and the fields of policies that only a gateway reads.
#[derive(Debug)]
pub struct GatewaySection;

/// The sections of a program with a gateway, for
/// [`PolicySource::with_sections`](tidegate::config::PolicySource::with_sections).
pub const SECTIONS: Sections = &[&GatewaySection];

/// The fields of a policy that only a gateway reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayPolicy {
    /// How long denied callers may wait in line. By default they are refused immediately.
    pub max_wait: Option<Span>,
    /// The response to denied callers, in place of the default response.
    pub denied: Option<DeniedResponse>,
    /// The cost that only the response determines.
    pub response_cost: Option<ResponseCostSource>,
    /// Whether its key, its conditions or its cost use a claim of a token.
    pub uses_claims: bool,
}

impl GatewayPolicy {
    /// The fields of a policy, unless all of them have their defaults.
    pub fn of(policy: &PlannedPolicy) -> Option<&Self> {
        policy.section::<GatewaySection>()
    }

    pub(crate) fn response_cost_of(policy: &PlannedPolicy) -> Option<&ResponseCostSource> {
        Self::of(policy)?.response_cost.as_ref()
    }

    pub(crate) fn denied_of(policy: &PlannedPolicy) -> Option<&DeniedResponse> {
        Self::of(policy)?.denied.as_ref()
    }

    pub(crate) fn max_wait_of(policy: &PlannedPolicy) -> Option<Span> {
        Self::of(policy)?.max_wait
    }
}

/// The compiled configuration of a gateway: where requests go, and how they are changed.
///
/// ```
/// use tidegate::Plan;
/// use tidegate::config::PolicySource;
/// use tidegate_gateway::config::{GatewaySection, SECTIONS};
///
/// let text = "
/// gateway:
///   upstreams: { api: http://10.0.0.1:3000, pages: http://10.0.0.2 }
///   routes:
///     - { match: { path: /api/** }, upstream: api }
///     - { upstream: pages }
/// policies: [{ name: all, key: [ip], limits: [100/minute] }]
/// ";
/// let source = PolicySource::new("limits.yaml", text)?.with_sections(SECTIONS);
/// let plan = Plan::compile(&source)?;
/// let gateway = plan.section::<GatewaySection>().unwrap();
/// let number = gateway.route(&[("path", "/api/users")]).unwrap();
/// let route = &gateway.routes()[number];
/// assert_eq!(gateway.upstreams()[route.upstream()].name, "api");
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayPlan {
    /// Where to listen: `host:port`.
    pub listen: Vec<String>,
    /// Changes to the headers of every request.
    pub request_headers: HeaderRules,
    /// Changes to the headers of every response.
    pub response_headers: HeaderRules,
    /// Which ambiguous requests are refused, and which fields are removed.
    pub requests: RequestRules,
    /// Where the attribute `api_key` comes from.
    pub api_key: ApiKeyLocation,
    /// How tokens are verified.
    pub jwt: Option<JwtPlan>,
    /// Where requests are logged.
    pub access_log: Option<AccessLogPlan>,
    conditions: ConditionList,
    routes: Vec<RoutePlan>,
    upstreams: Vec<UpstreamPlan>,
}

/// A route: the requests that match, and the service that they go to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RoutePlan {
    /// Its name in logs.
    pub name: String,
    /// Changes to the headers of its requests.
    pub request_headers: HeaderRules,
    /// Changes to the headers of its responses.
    pub response_headers: HeaderRules,
    upstream: usize,
}

/// Changes to the headers of a message: first removed, then set, then added. Names are in lower
/// case, and both names and values are valid to send; values from files and variables are checked later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderRules {
    /// Names of headers to remove.
    pub remove: Vec<String>,
    /// Headers to set, replacing any of the same name.
    pub set: Vec<(String, SecretText)>,
    /// Headers to add beside any of the same name.
    pub add: Vec<(String, SecretText)>,
}

impl HeaderRules {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }
}

/// Where the API key is in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApiKeyLocation {
    /// In a header, by its name in lower case.
    Header(String),
    /// In a query parameter.
    Query(String),
    /// In a cookie.
    Cookie(String),
}

/// How tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JwtPlan {
    /// The file with the keys: a JWKS, a public key in PEM, or a secret.
    pub keys: PathBuf,
    /// The algorithms that a token may be signed with.
    pub algorithms: Vec<JwtAlgorithm>,
    /// Whether a request without a token is refused.
    pub required: bool,
    /// The issuer that a token must have.
    pub issuer: Option<String>,
    /// The audience that a token must have.
    pub audience: Option<String>,
    /// How far clocks may be apart.
    pub leeway: Span,
    /// Whether a token that never expires is refused.
    pub requires_expiry: bool,
    /// How long ago a token may have been issued.
    pub max_age: Option<Span>,
}

file_choice! {
    /// A way to sign a token.
    #[non_exhaustive]
    pub enum JwtAlgorithm("signature", "JwtAlgorithmName", "The signature algorithms.") {
        /// HMAC with SHA-256.
        Hs256 = "HS256",
        /// RSASSA-PKCS1-v1_5 with SHA-256.
        Rs256 = "RS256",
        /// ECDSA on P-256 with SHA-256.
        Es256 = "ES256",
        /// Ed25519.
        EdDsa = "EdDSA",
    }
}

/// Where requests are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessLogPlan {
    /// The file; `None` for standard output.
    pub file: Option<PathBuf>,
    /// How many of a thousand requests are logged.
    pub sample_permille: u16,
    /// Whether callers are shown as they are, rather than hashed.
    pub shows_keys: bool,
}

impl GatewayPlan {
    /// Where to listen by default.
    pub const DEFAULT_LISTEN: &'static str = "127.0.0.1:8000";

    /// Sends all requests to one address. The error says what is wrong with the URL.
    pub fn to(url: &str) -> Result<Self, String> {
        let upstream = UpstreamPlan::new("default".to_owned(), vec![UpstreamUrl::read(url)?]);
        Ok(Self::new(vec![upstream]))
    }

    /// Sends all requests to the first service.
    pub(crate) fn new(upstreams: Vec<UpstreamPlan>) -> Self {
        let name = upstreams.first().map(|first| first.name.clone()).unwrap_or_default();
        Self {
            listen: vec![Self::DEFAULT_LISTEN.to_owned()],
            request_headers: HeaderRules::default(),
            response_headers: HeaderRules::default(),
            requests: RequestRules::default(),
            api_key: ApiKeyLocation::Header("x-api-key".to_owned()),
            jwt: None,
            access_log: None,
            conditions: ConditionList::default(),
            routes: vec![RoutePlan::new(name, 0)],
            upstreams,
        }
    }

    /// The number of the first route that a request matches. Only the attributes `host`, `path`,
    /// `method` and `header:...` are looked up.
    pub fn route<A: Attributes + ?Sized>(&self, request: &A) -> Option<usize> {
        // Without routes in the file, there is one for all requests.
        if self.conditions.is_empty() { Some(0) } else { self.conditions.first_match(request) }
    }

    /// The attributes that routes use.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.conditions.attributes()
    }

    /// All routes, in the order of the file.
    pub fn routes(&self) -> &[RoutePlan] {
        &self.routes
    }

    /// All services.
    pub fn upstreams(&self) -> &[UpstreamPlan] {
        &self.upstreams
    }
}

impl RoutePlan {
    pub(crate) fn new(name: String, upstream: usize) -> Self {
        Self {
            name,
            upstream,
            request_headers: HeaderRules::default(),
            response_headers: HeaderRules::default(),
        }
    }

    /// The number of its service among [`GatewayPlan::upstreams`].
    pub const fn upstream(&self) -> usize {
        self.upstream
    }
}

/// Whether a text can be the value of a header.
pub(crate) fn is_field_value(text: &str) -> bool {
    !text.contains(char::is_control) && text.len() <= MAX_VALUE && text.trim() == text
}

/// The longest value of a header, in bytes.
const MAX_VALUE: usize = 4 << 10;
