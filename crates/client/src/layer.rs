//! The layer: configures waits, retries and pacing of a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tower_layer::Layer;

use crate::rules::ClientRules;
use crate::state::ClientState;
use crate::{
    AdaptiveThrottle, BodyReplay, ClientObserver, ClonedBodies, EmptyBodies, PoliteClient,
    RetryBackoff, RetryBudget,
};

/// Makes a client polite: it waits when the server says so, paces itself before it is refused, and
/// retries what can be retried.
///
/// All services that the layer makes share what they know of servers. Time is tokio's.
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use tidegate::client::PoliteLayer;
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // A server that is busy at first.
/// let start = tokio::time::Instant::now();
/// let server = service_fn(move |_: Request<String>| async move {
///     let is_busy = start.elapsed().as_secs() < 7;
///     let response = Response::builder().status(if is_busy { 429 } else { 200 });
///     Ok::<_, Infallible>(response.header("retry-after", "7").body(()).unwrap())
/// });
///
/// let client = PoliteLayer::new().layer(server);
/// let response = client.oneshot(Request::new(String::new())).await?;
/// assert_eq!(response.status(), 200);
/// assert!(start.elapsed().as_secs() >= 7);
/// # Ok(())
/// # }
/// ```
pub struct PoliteLayer<R = EmptyBodies> {
    rules: ClientRules,
    replay: R,
    shared: Arc<ClientState>,
}

impl PoliteLayer {
    /// A layer with the defaults: at most five retries, of requests that are safe to repeat and
    /// have no body, and at most 90 seconds of waiting for each call.
    pub fn new() -> Self {
        let rules = ClientRules::default();
        Self { shared: Arc::new(ClientState::new(&rules)), rules, replay: EmptyBodies }
    }
}

impl Default for PoliteLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> PoliteLayer<R> {
    /// How often a refused call is sent again. Defaults to five times.
    ///
    /// With zero, the layer waits and paces, and every refusal is passed on.
    ///
    /// ```
    /// use tidegate::client::PoliteLayer;
    ///
    /// let layer = PoliteLayer::new().max_retries(0);
    /// ```
    #[must_use]
    pub fn max_retries(self, max_retries: u32) -> Self {
        self.with(|rules| rules.max_retries = max_retries)
    }

    /// How long a call can wait, all waits together. Defaults to 90 seconds, so that the minute that many
    /// servers request fits, with jitter on top. A call that would have to wait for longer gives up
    /// immediately: the refusal is passed on, or the call fails with
    /// [`PoliteError::TooEarly`](crate::PoliteError::TooEarly) if it was not even sent. It also fails with
    /// that error if the server requests a longer wait from another call while this one waits for a
    /// retry: the refusal is gone by then, since it would hold its connection through the wait.
    ///
    /// Pacing fails no call: a call that would have to wait for longer than this only to make a quota last
    /// waits for at most a second and is sent.
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        self.with(|rules| rules.max_wait = max_wait)
    }

    /// How long one refusal blocks all calls to its server at most. Defaults to a day; the minimum is a
    /// second. A server that means milliseconds and sends `Retry-After: 86400000` would otherwise never
    /// get a request again.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use std::time::Duration;
    /// use http::{Request, Response};
    /// use tidegate::client::{PoliteError, PoliteLayer};
    /// use tower::{Layer, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// // A server that refuses the first call, and means a day.
    /// let start = tokio::time::Instant::now();
    /// let server = service_fn(move |_: Request<String>| async move {
    ///     let response = Response::builder().status(if start.elapsed().is_zero() { 429 } else { 200 });
    ///     Ok::<_, Infallible>(response.header("retry-after", "86400000").body(()).unwrap())
    /// });
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let client = PoliteLayer::new().max_block(hour).layer(server);
    /// let call = || client.clone().oneshot(Request::new(String::new()));
    /// assert_eq!(call().await?.status(), 429);
    /// assert_eq!(call().await.unwrap_err(), PoliteError::TooEarly(hour));
    /// tokio::time::sleep(hour).await;
    /// assert_eq!(call().await?.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn max_block(self, max_block: Duration) -> Self {
        // Zero would turn every `Retry-After` into an immediate retry.
        self.with(|rules| rules.max_block = max_block.max(Duration::from_secs(1)))
    }

    /// How waits grow, and by how much they differ.
    ///
    /// It applies to refusals that do not say how long to wait. Where the server says so, its wait is kept in
    /// full, and only the jitter on top comes from here.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::client::{PoliteLayer, RetryBackoff};
    ///
    /// let slower = RetryBackoff { base: Duration::from_secs(1), ..RetryBackoff::default() };
    /// let layer = PoliteLayer::new().backoff(slower);
    /// ```
    #[must_use]
    pub fn backoff(self, backoff: RetryBackoff) -> Self {
        self.with(|rules| rules.backoff = backoff)
    }

    /// How many retries there can be in total. Defaults to one for five calls.
    ///
    /// The budget belongs to the layer, so all of its services and servers share it. It only bounds retries that
    /// the server did not invite: a retry at the time that a `Retry-After` named is free.
    ///
    /// ```
    /// use tidegate::client::{PoliteLayer, RetryBudget};
    ///
    /// // One retry for a hundred calls, and none saved up.
    /// let layer = PoliteLayer::new().budget(RetryBudget::new(1, 1));
    /// ```
    #[must_use]
    pub fn budget(self, budget: RetryBudget) -> Self {
        self.with(|rules| rules.budget = Arc::new(budget))
    }

    /// Refuses calls locally while their server refuses most. Off by default.
    ///
    /// A call that is refused locally fails with [`PoliteError::Throttled`](crate::PoliteError::Throttled) and
    /// costs the server nothing. Use it where many clients share a server that is close to its limits.
    #[must_use]
    pub fn throttle(self, throttle: AdaptiveThrottle) -> Self {
        self.with(|rules| rules.throttle = Some(throttle))
    }

    /// Waits only after a refusal, and does not pace requests to avoid one.
    ///
    /// Without pacing, a client uses up its quota as fast as it can, and then waits for the rest of the window.
    /// That suits batch jobs, which only care when they are done.
    #[must_use]
    pub fn without_pacing(self) -> Self {
        self.with(|rules| rules.paces = false)
    }

    /// Which requests share a limit. Defaults to those to the same host and port, by their URI or, if that
    /// is only a path, by their `Host`.
    ///
    /// At most about a thousand scopes are remembered. Scopes without current limits are forgotten first,
    /// then those whose limits end soonest, and never while a call is in flight.
    ///
    /// ```
    /// use tidegate::client::PoliteLayer;
    ///
    /// // A server that limits each API key by itself, whatever the host is called.
    /// let layer = PoliteLayer::new().scope(|request| {
    ///     let key = request.headers.get("x-api-key");
    ///     key.map(|key| format!("{key:?}")).unwrap_or_default()
    /// });
    /// ```
    #[must_use]
    pub fn scope(self, scope: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.scope = Arc::new(scope))
    }

    /// Which requests can be sent twice. Defaults to those whose method is idempotent (GET, HEAD,
    /// OPTIONS, TRACE, PUT, DELETE) and those with an `Idempotency-Key`.
    ///
    /// A server may have done its work although its response was lost or was a refusal by something in between.
    /// So only say yes where doing it twice is harmless.
    ///
    /// ```
    /// use http::Method;
    /// use tidegate::client::PoliteLayer;
    ///
    /// // Searches are sent as POST, and change nothing.
    /// let layer = PoliteLayer::new().repeat_if(|request| {
    ///     request.method == Method::GET || request.uri.path() == "/search"
    /// });
    /// ```
    #[must_use]
    pub fn repeat_if(self, repeat: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.with(|rules| rules.repeat_if = Arc::new(repeat))
    }

    /// Reports what happens to an observer.
    ///
    /// See [`ClientEvent`](crate::ClientEvent) for what is reported. There is one observer; a second call
    /// replaces the first.
    #[must_use]
    pub fn observer(self, observer: impl ClientObserver + 'static) -> Self {
        self.with(|rules| rules.observer = Some(Arc::new(observer)))
    }

    /// Seeds all randomness, so that a test sees the same waits every time.
    ///
    /// Not for production: clients with the same seed come back at the same time, which jitter is there to avoid.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.with(|rules| rules.seed = Some(seed))
    }

    /// Repeats requests with a body too, by cloning it.
    ///
    /// The clone is made before the request is sent, so that every request pays for it, not only those that are
    /// refused. That is cheap for `Bytes` and for shared bodies.
    ///
    /// ```
    /// use tidegate::client::PoliteLayer;
    ///
    /// let layer = PoliteLayer::new().clone_bodies();
    /// ```
    #[must_use]
    pub fn clone_bodies(self) -> PoliteLayer<ClonedBodies> {
        self.with_replay(ClonedBodies)
    }

    /// Makes the body of a retry with a function.
    ///
    /// The function gets the original body and returns another one, or `None` if this body cannot be sent twice;
    /// the refusal is then passed on. See [`BodyReplay`].
    #[must_use]
    pub fn replay<B, F>(self, replay: F) -> PoliteLayer<F>
    where
        F: Fn(&B) -> Option<B> + Clone + Send + Sync + 'static,
        F: BodyReplay<B>,
    {
        self.with_replay(replay)
    }

    fn with_replay<T>(self, replay: T) -> PoliteLayer<T> {
        PoliteLayer { rules: self.rules, replay, shared: self.shared }
    }

    fn with(mut self, change: impl FnOnce(&mut ClientRules)) -> Self {
        change(&mut self.rules);
        Self { shared: Arc::new(ClientState::new(&self.rules)), ..self }
    }
}

impl<S, R: Clone> Layer<S> for PoliteLayer<R> {
    type Service = PoliteClient<S, R>;

    fn layer(&self, inner: S) -> PoliteClient<S, R> {
        PoliteClient::new(inner, self.replay.clone(), Arc::clone(&self.shared))
    }
}

impl<R: Clone> Clone for PoliteLayer<R> {
    fn clone(&self) -> Self {
        let (rules, shared) = (self.rules.clone(), Arc::clone(&self.shared));
        Self { rules, replay: self.replay.clone(), shared }
    }
}

impl<R> fmt::Debug for PoliteLayer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PoliteLayer").field(&self.rules).finish()
    }
}
