//! A client of a Tidegate server: asks it for decisions over HTTP, with types.
//!
//! For programs that share the limits of a server instead of having limits of their own. Requires the feature
//! `remote`.
//!
//! ```no_run
//! use std::time::Duration;
//! use tidegate::client::remote::{OnServerError, RemoteCheck, RemoteLimiter};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = RemoteLimiter::new("http://127.0.0.1:8080")?
//!     .deadline(Duration::from_millis(50))
//!     .on_error(OnServerError::Closed);
//!
//! let decision = limits.check(&RemoteCheck::policy("login", "alice")).await;
//! if !decision.is_allowed() {
//!     println!("try again in {:?}", decision.retry_after());
//! }
//! // All policies that match, by the attributes of the request.
//! let search = RemoteCheck::attributes([("user", "42"), ("path", "/search")]).cost(5);
//! let decision = limits.check(&search).await;
//! # Ok(())
//! # }
//! ```

mod answer;
mod check;
mod decision;
mod error;

use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use reqwest::Client;
use serde::Serialize;

pub use self::check::RemoteCheck;
pub use self::decision::{RemoteDecision, RemoteLimit};
pub use self::error::RemoteError;

use self::answer::{BatchAnswer, ItemAnswer};

/// What to decide when the server does not answer in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnServerError {
    /// Allow: a limit that cannot be asked limits nobody. The default.
    #[default]
    Open,
    /// Deny: rather no request than an unlimited number of them.
    Closed,
}

/// Asks a Tidegate server for decisions.
///
/// Clones share their connections. [`check`](Self::check) always decides, by [`OnServerError`] if it has to;
/// [`try_check`](Self::try_check) reports the problem instead.
///
/// Connections are reused, and HTTP is reqwest's: with [`with_client`](Self::with_client), TLS, certificates and
/// proxies are those of your own client.
#[derive(Clone, Debug)]
pub struct RemoteLimiter {
    client: Client,
    /// Without a slash at its end.
    url: String,
    deadline: Duration,
    on_error: OnServerError,
}

impl RemoteLimiter {
    /// How long a decision may take, unless [`deadline`](Self::deadline) says otherwise.
    pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(100);

    /// A client of the server at `url`, such as `http://127.0.0.1:8080`.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if this is not the URL of a server.
    ///
    /// ```
    /// use tidegate::client::remote::RemoteLimiter;
    ///
    /// assert!(RemoteLimiter::new("http://127.0.0.1:8080").is_ok());
    /// assert!(RemoteLimiter::new("localhost").is_err());
    /// ```
    pub fn new(url: &str) -> Result<Self, RemoteError> {
        Self::with_client(url, Client::new())
    }

    /// [`new`](Self::new) with an HTTP client of your own.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if this is not the URL of a server.
    pub fn with_client(url: &str, client: Client) -> Result<Self, RemoteError> {
        let is_server = ["http://", "https://"].iter().any(|scheme| {
            url.strip_prefix(scheme).is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
        });
        if !is_server {
            return Err(RemoteError::Url(url.to_owned()));
        }
        let url = url.trim_end_matches('/').to_owned();
        let (deadline, on_error) = (Self::DEFAULT_DEADLINE, OnServerError::default());
        Ok(Self { client, url, deadline, on_error })
    }

    /// How long a decision may take, with connecting. Defaults to
    /// [`DEFAULT_DEADLINE`](Self::DEFAULT_DEADLINE).
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// What [`check`](Self::check) decides when the server does not answer in time. Defaults to
    /// [`OnServerError::Open`].
    #[must_use]
    pub fn on_error(self, on_error: OnServerError) -> Self {
        Self { on_error, ..self }
    }

    /// May this happen now? Takes its cost if it may.
    ///
    /// If the server does not answer in time, or refuses the check as invalid, [`OnServerError`] decides, and
    /// [`RemoteDecision::error`] has the reason.
    ///
    /// ```
    /// use tidegate::client::remote::{OnServerError, RemoteCheck, RemoteLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::client::remote::RemoteError> {
    /// // Nobody is there.
    /// let limits = RemoteLimiter::new("http://127.0.0.1:1")?;
    /// let check = RemoteCheck::policy("login", "alice");
    /// assert!(limits.check(&check).await.is_allowed());
    /// let decision = limits.on_error(OnServerError::Closed).check(&check).await;
    /// assert!(!decision.is_allowed() && decision.error().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn check(&self, check: &RemoteCheck) -> RemoteDecision {
        let is_open = self.on_error == OnServerError::Open;
        self.try_check(check).await.unwrap_or_else(|error| RemoteDecision::without(is_open, error))
    }

    /// [`check`](Self::check), and leaves it to the caller what to do without an answer.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if the server did not answer in time, or refused the check.
    pub async fn try_check(&self, check: &RemoteCheck) -> Result<RemoteDecision, RemoteError> {
        let (status, body) = self.post("/v1/check", check).await?;
        answer::decision(status, &body)
    }

    /// How much is left? Takes nothing.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if the server did not answer in time, or refused the check.
    pub async fn peek(&self, check: &RemoteCheck) -> Result<RemoteDecision, RemoteError> {
        self.try_check(&check.clone().cost(0)).await
    }

    /// Gives back the cost of an earlier check, because it was not used after all. The decision shows what is left
    /// then.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if the server did not answer in time, refused it, or gives its clients no right to refunds.
    pub async fn refund(&self, check: &RemoteCheck) -> Result<RemoteDecision, RemoteError> {
        let (status, body) = self.post("/v1/refund", &check.as_refund()).await?;
        answer::decision(status, &body)
    }

    /// Many checks in one request, decided one by one and in this order. A check that is invalid affects no other.
    ///
    /// # Errors
    ///
    /// [`RemoteError`] if the server did not answer in time, or refused the whole request: it takes 256 checks at
    /// most.
    pub async fn check_all(
        &self,
        checks: &[RemoteCheck],
    ) -> Result<Vec<Result<RemoteDecision, RemoteError>>, RemoteError> {
        let (status, body) = self.post("/v1/check/batch", &check::Batch { checks }).await?;
        if !status.is_success() {
            return Err(answer::refusal(status, &body));
        }
        let answer: BatchAnswer = answer::read(status, &body)?;
        Ok(answer.results.into_iter().map(ItemAnswer::into_result).collect())
    }

    async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(StatusCode, Vec<u8>), RemoteError> {
        let text =
            serde_json::to_vec(body).map_err(|error| RemoteError::Answer(error.to_string()))?;
        let request = self
            .client
            .post(format!("{}{path}", self.url))
            .header(CONTENT_TYPE, "application/json")
            .timeout(self.deadline)
            .body(text);
        let response = request.send().await?;
        Ok((response.status(), response.bytes().await?.to_vec()))
    }
}
