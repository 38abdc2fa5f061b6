//! The layer: configures what is limited, by which key, and how denials are answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use tidegate_limiter::config::RequestRules;
use tidegate_limiter::{BuildError, Decision, LimitSpec, Limiter, WaitLimits};
use tower_layer::Layer;

use crate::backend::IntoBackend;
use crate::config::LayerConfig;
use crate::waiting::LayerWaiting;
use crate::{Denial, RateLimit, RequestHead, RequestKey, ResponseHead};

/// Limits the requests to a service.
///
/// ```
/// use axum::{Router, routing::get};
/// use tidegate::tower::{RequestKey, RateLimitLayer};
///
/// # fn main() -> Result<(), tidegate::BuildError> {
/// let limit = RateLimitLayer::new("100/minute burst 20")?.by(RequestKey::client_ip().trust_hops(1));
/// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit);
/// # Ok(())
/// # }
/// ```
///
/// Clones of a layer share their counters, and so do all services that it makes: all routes,
/// connections and threads share one limit. The default key is the client's address; see
/// [`by`](Self::by). Allowed and denied responses carry `RateLimit` fields, and a denial is a 429
/// with a problem document, or RESOURCE_EXHAUSTED for gRPC.
#[derive(Clone, Debug)]
#[must_use = "a layer limits nothing until it is used"]
pub struct RateLimitLayer {
    config: Arc<LayerConfig>,
}

impl RateLimitLayer {
    /// A layer with this quota for each client, counted in this process: `100/minute`, `5 per 10s`,
    /// `1000/1h burst 200`. The policy is called `default`, which clients see.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the quota cannot be parsed, or if no algorithm can enforce it. It says what was
    /// expected.
    pub fn new(limit: impl Into<LimitSpec>) -> Result<Self, BuildError> {
        Ok(Self::limiter(Limiter::builder().limit(limit).build()?))
    }

    /// A named layer: clients that meet several layers can tell their `RateLimit` fields apart.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// // Responses say `RateLimit-Policy: "search";q=30;w=60`.
    /// let layer = RateLimitLayer::named("search", "30/minute")?;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn named(name: &str, limit: impl Into<LimitSpec>) -> Result<Self, BuildError> {
        Ok(Self::limiter(Limiter::builder().name(name).limit(limit).build()?))
    }

    /// A layer with a limiter of your own: several limits, another algorithm, a name, a store in
    /// Redis; or a [`PlanLimiter`](tidegate_limiter::PlanLimiter), which decides by policies and [attributes](Self::attribute). In
    /// an [`Arc`], other code can use it too.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter};
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let logins = Limiter::builder()
    ///     .name("login")
    ///     .algorithm(AlgorithmKind::SlidingLog)
    ///     .limits(["5/minute", "20/hour"])
    ///     .build()?;
    /// let layer = RateLimitLayer::limiter(logins);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn limiter(limiter: impl IntoBackend) -> Self {
        Self { config: Arc::new(LayerConfig::new(limiter.into_backend())) }
    }

    /// What distinguishes callers. Defaults to the client's address. Policies have their own keys, and
    /// this only sets how the address is found.
    ///
    /// ```
    /// use tidegate::tower::{RateLimitLayer, RequestKey};
    ///
    /// let layer = RateLimitLayer::new("100/minute")?.by(RequestKey::header("x-user").or_shared());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn by(self, key: RequestKey) -> Self {
        self.with(|config| config.key = key)
    }

    /// Gives policies an attribute. Those of [`HttpRequest`](tidegate_http::HttpRequest) are
    /// available already (`ip`, `method`, `path`, `host`, `api_key`, `header:x-any` and more), and
    /// in axum `route`, the template of the path. An attribute that is set here replaces the available
    /// one; a request that lacks it has none. If policies use an attribute that a request has twice,
    /// with different values, the response is 400. Numbers and addresses become text: `42`, `10.0.0.1`.
    ///
    /// ```no_run
    /// use tidegate::tower::{RequestKey, RateLimitLayer};
    ///
    /// #[derive(Clone)]
    /// struct User { id: String, plan: &'static str }
    ///
    /// let layer = RateLimitLayer::policy_file("limits.yaml")?
    ///     .attribute("user", RequestKey::extension(|user: &User| user.id.clone()))
    ///     .attribute("plan", RequestKey::extension(|user: &User| user.plan));
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn attribute(self, name: &str, value: RequestKey) -> Self {
        self.with(|config| config.attributes.push((name.into(), value)))
    }

    /// How requests are read. Defaults to `http.requests` of the policy file. Without a file, everything
    /// that services are known to read in two ways is refused.
    ///
    /// ```
    /// use tidegate::config::{PathParameters, RequestRules};
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let rules = RequestRules::default().path_parameters(PathParameters::Keep);
    /// let layer = RateLimitLayer::new("100/minute")?.requests(rules);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn requests(self, rules: RequestRules) -> Self {
        self.with(|config| config.requests = Some(rules))
    }

    /// What a request costs. Defaults to one unit. Zero is a peek. A cost greater than a limit ever
    /// holds is always denied.
    pub fn cost(self, cost: impl Fn(RequestHead<'_>) -> u64 + Send + Sync + 'static) -> Self {
        self.with(|config| config.cost = Some(Arc::new(cost)))
    }

    /// Requests that are neither limited nor counted.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new("100/minute")?.skip(|head| head.uri().path() == "/healthz");
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn skip(self, skip: impl Fn(RequestHead<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.skip = Some(Arc::new(skip)))
    }

    /// Counts only requests that fail (see [`ResponseHead::is_failure`]): wrong passwords, not
    /// successful logins.
    pub fn count_failures(self) -> Self {
        self.count_if(|response| response.is_failure())
    }

    /// Counts only requests for whose response `counts` returns true.
    ///
    /// Every request pays before it happens and gets its cost back if it does not count: otherwise a
    /// client that sends a thousand guesses concurrently would get a thousand tries. If the client
    /// disconnects before the response, the request counts.
    ///
    /// With a policy's `block_for`, a response that counts and leaves nothing of the quota blocks its
    /// caller, and so does a client that disconnects before the response. A denial does not block: it may
    /// be due to concurrent requests that will not count.
    pub fn count_if(
        self,
        counts: impl Fn(ResponseHead<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.count_if = Some(Arc::new(counts)))
    }

    /// Takes the cost of a request from its response: the tokens that an answer took, the rows that were read.
    ///
    /// A request pays its [`cost`](Self::cost) before it happens, one unit by default. When the response says what
    /// it cost, the difference is taken or given back. The request has happened by then: a cost that exceeds the quota
    /// takes all that is left, and the next request is denied. `None` leaves it at what was paid. Policies of a file
    /// that have costs of their own are corrected by the same difference.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// /// What a handler puts into its response's extensions.
    /// #[derive(Clone)]
    /// struct Tokens(u64);
    ///
    /// let layer = RateLimitLayer::new("10000/hour")?
    ///     .cost_of_response(|response| response.extensions().get().map(|Tokens(tokens)| *tokens));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn cost_of_response(
        self,
        cost: impl Fn(ResponseHead<'_>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.response_cost = Some(Arc::new(cost)))
    }

    /// Lets denied requests wait for their turn, instead of answering them with 429. A caller's requests wait in
    /// the order of arrival, for `max_wait` at most, and no more than `max_queue` of them; the others are denied.
    ///
    /// A waiting request keeps its connection and its memory: choose bounds that the server can hold for all callers
    /// together. Timers are tokio's.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// // Ten a second for each caller; short bursts are smoothed instead of refused.
    /// let layer = RateLimitLayer::new("10/second burst 1")?.wait(Duration::from_secs(2), 20);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn wait(self, max_wait: Duration, max_queue: usize) -> Self {
        let waiting = Arc::new(LayerWaiting::new(WaitLimits { max_wait, max_queue }));
        self.with(|config| config.waiting = Some(waiting))
    }

    /// Turns the layer off, or on again: a switch for tests and for emergencies. Nothing is counted while it is
    /// off.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new("5/minute")?.enabled(std::env::var("NO_LIMITS").is_err());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn enabled(self, is_enabled: bool) -> Self {
        self.with(|config| config.is_enabled = is_enabled)
    }

    /// Sets another response for denied requests. `RateLimit` fields and `Retry-After` are added to
    /// it.
    ///
    /// ```
    /// use http::Response;
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::new("5/minute")?.on_denied(|denial| {
    ///     let wait = denial.decision().retry_after().map_or(0, |wait| wait.as_secs() + 1);
    ///     let mut response = Response::new(format!("come back in {wait} s"));
    ///     *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    ///     response
    /// });
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn on_denied<T: Into<Bytes>>(
        self,
        respond: impl Fn(Denial<'_>) -> Response<T> + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| {
            config.on_denied = Some(Arc::new(move |denial| respond(denial).map(Into::into)));
        })
    }

    /// Called with every decision: for metrics, or to see what [`shadow`](Self::shadow) would deny.
    pub fn observe(
        self,
        observer: impl Fn(RequestHead<'_>, &Decision) + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.observe = Some(Arc::new(observer)))
    }

    /// Observes without limiting: everything is counted, nothing is denied, and responses carry no
    /// `RateLimit` fields. The [`Decision`] in the request's extensions shows what would have happened.
    pub fn shadow(self) -> Self {
        self.with(|config| config.is_shadow = true)
    }

    /// Sends responses without `RateLimit` fields; a denial still has its `Retry-After`.
    pub fn without_fields(self) -> Self {
        self.with(|config| config.has_fields = false)
    }

    /// Leaves the [`Decision`] out of the request's extensions, if no handler uses it: inserting it takes
    /// longer than deciding.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// // The least overhead of a layer.
    /// let layer = RateLimitLayer::new("100/minute")?.without_fields().without_decision();
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn without_decision(self) -> Self {
        self.with(|config| config.has_decision = false)
    }

    pub(crate) fn config(&self) -> &LayerConfig {
        &self.config
    }

    pub(crate) fn with(self, change: impl FnOnce(&mut LayerConfig)) -> Self {
        let mut config = Arc::unwrap_or_clone(self.config);
        change(&mut config);
        Self { config: Arc::new(config) }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        let config = &self.config;
        config.warnings.warn_of_plan(|| config.backend.warnings(config));
        RateLimit::new(inner, Arc::clone(&self.config))
    }
}
