//! A call: waits for its turn, sends the request, and retries after a refusal.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use crate::known_server::KnownServer;
use crate::server_limits::ServerLimits;
use crate::state::ClientState;
use crate::{BodyReplay, ClientEvent, GiveUpReason, PoliteError};

/// One call, with all its attempts.
pub(crate) struct ClientCall {
    shared: Arc<ClientState>,
    server: Arc<Mutex<KnownServer>>,
    /// When the request can be sent, until it is.
    turn: Option<Instant>,
    /// Whether it has paid for a retry that was not sent yet.
    has_paid: bool,
    may_repeat: bool,
    /// How many attempts have been made.
    attempts: u32,
    /// How long it can still wait.
    patience: Duration,
}

impl ClientCall {
    pub(crate) fn new(shared: Arc<ClientState>, head: &Parts) -> Self {
        Self {
            server: shared.server(head, Instant::now()),
            turn: None,
            has_paid: false,
            may_repeat: (shared.rules.repeat_if)(head),
            attempts: 0,
            patience: shared.rules.max_wait,
            shared,
        }
    }

    pub(crate) async fn run<S, R, B, O>(
        mut self,
        mut inner: S,
        replay: R,
        request: Request<B>,
    ) -> Result<Response<O>, PoliteError<S::Error>>
    where
        S: Service<Request<B>, Response = Response<O>> + Clone,
        R: BodyReplay<B>,
    {
        if self.shared.throttles(&self.server, Instant::now()) {
            self.shared.observe(ClientEvent::Throttled);
            return Err(PoliteError::Throttled);
        }
        self.pace().await.map_err(PoliteError::TooEarly)?;
        let mut next = request;
        loop {
            let again = self.repeat_request(&next, &replay);
            let number = self.begin_send_when_ready(&mut inner).await?;
            let response = inner.call(next).await.map_err(PoliteError::Service)?;
            self.attempts += 1;
            let limits = ServerLimits::from_response(response.status(), response.headers());
            self.server.lock().record_response(&limits, number, Instant::now());
            if !limits.is_refused {
                return Ok(response);
            }
            let Some((again, wait)) = self.retry(again, response.status(), &limits) else {
                return Ok(response);
            };
            // The unread body may hold a connection that others wait for.
            drop(response);
            self.wait_to_retry(wait).await.map_err(|wait| self.too_early(wait))?;
            next = again;
        }
    }

    /// A copy of the request, if it may have to be sent again.
    fn repeat_request<B, R: BodyReplay<B>>(
        &self,
        request: &Request<B>,
        replay: &R,
    ) -> Option<Request<B>> {
        if !self.may_repeat || self.attempts >= self.shared.rules.max_retries {
            return None;
        }
        let body = replay.replay(request.body())?;
        let mut again = Request::new(body);
        again.method_mut().clone_from(request.method());
        again.uri_mut().clone_from(request.uri());
        *again.version_mut() = request.version();
        again.headers_mut().clone_from(request.headers());
        again.extensions_mut().clone_from(request.extensions());
        Some(again)
    }

    /// Waits for its turn, and again if another call was refused meanwhile. If that would take too long,
    /// the error is the wait.
    async fn pace(&mut self) -> Result<(), Duration> {
        loop {
            let now = Instant::now();
            let wait = self.reserve(now)? - now;
            if wait.is_zero() {
                return Ok(());
            }
            self.shared.observe(ClientEvent::Paced { wait });
            if self.wait(wait).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Reserves a turn in place of any earlier one.
    fn reserve(&mut self, now: Instant) -> Result<Instant, Duration> {
        self.give_back();
        let Self { shared, server, attempts, patience, .. } = self;
        let turn = shared.reserve(server, *attempts, *patience, now)?;
        self.turn = Some(turn);
        Ok(turn)
    }

    /// Waits, at the cost of its patience. Returns the end of a refusal that holds afterwards.
    async fn wait(&mut self, wait: Duration) -> Option<Instant> {
        self.patience = self.patience.saturating_sub(wait);
        sleep(wait).await;
        self.server.lock().pacer.blocked_until(Instant::now())
    }

    /// Begins to send when the inner service is ready. That can take long, and another call can be
    /// refused meanwhile: then this call waits again, with a fresh clone of the service, so that it does
    /// not hold the readiness that it had reserved.
    async fn begin_send_when_ready<S, Q>(
        &mut self,
        inner: &mut S,
    ) -> Result<u64, PoliteError<S::Error>>
    where
        S: Service<Q> + Clone,
    {
        loop {
            poll_fn(|context| inner.poll_ready(context)).await.map_err(PoliteError::Service)?;
            if let Some(number) = self.try_begin_send() {
                return Ok(number);
            }
            *inner = inner.clone();
            self.pace().await.map_err(|wait| self.too_early(wait))?;
        }
    }

    /// Records that the request is sent: from here on it counts. Returns its number; `None` while a
    /// refusal holds.
    fn try_begin_send(&mut self) -> Option<u64> {
        let number = self.server.lock().try_begin_send(self.turn, Instant::now())?;
        if self.attempts == 0 {
            self.shared.rules.budget.deposit();
        }
        (self.turn, self.has_paid) = (None, false);
        Some(number)
    }

    fn give_back(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.server.lock().pacer.give_back(turn);
        }
    }

    /// The request to send again, and the wait before that; `None` to give up.
    fn retry<B>(
        &mut self,
        again: Option<Request<B>>,
        status: StatusCode,
        limits: &ServerLimits,
    ) -> Option<(Request<B>, Duration)> {
        let attempt = self.attempts;
        self.shared.observe(ClientEvent::Refused {
            status,
            retry_after: limits.retry_after,
            attempt,
        });
        let is_last = attempt > self.shared.rules.max_retries;
        let why_not = if is_last { GiveUpReason::Attempts } else { GiveUpReason::NotRepeatable };
        let retry = again
            .ok_or(why_not)
            .and_then(|again| self.back_off(status, limits).map(|wait| (again, wait)));
        self.shared.observe(match &retry {
            Ok((_, wait)) => ClientEvent::Retrying { wait: *wait, attempt: attempt + 1 },
            Err(why) => ClientEvent::GaveUp { attempt, why: *why },
        });
        retry.ok()
    }

    /// The wait before a retry: `Retry-After` plus jitter, or exponential backoff without it.
    fn back_off(
        &mut self,
        status: StatusCode,
        limits: &ServerLimits,
    ) -> Result<Duration, GiveUpReason> {
        // A retry earlier than `Retry-After` pays from the budget.
        let is_honoured = |wait: Duration| wait <= self.shared.rules.max_block;
        let is_invited =
            status == StatusCode::TOO_MANY_REQUESTS && limits.retry_after.is_some_and(is_honoured);
        let wait = self.retry_wait(limits).ok_or(GiveUpReason::Wait)?;
        if !is_invited {
            self.pay_for_retry()?;
        }
        Ok(wait)
    }

    /// Waits before a retry, and again if another call was refused meanwhile with a longer wait.
    async fn wait_to_retry(&mut self, wait: Duration) -> Result<(), Duration> {
        match self.wait(wait).await {
            Some(_) => self.pace().await,
            None => Ok(()),
        }
    }

    /// The error of a call that cannot be sent. The refusal, if there was one, is no longer available.
    fn too_early<E>(&self, wait: Duration) -> PoliteError<E> {
        if self.attempts > 0 {
            self.shared
                .observe(ClientEvent::GaveUp { attempt: self.attempts, why: GiveUpReason::Wait });
        }
        PoliteError::TooEarly(wait)
    }

    fn pay_for_retry(&mut self) -> Result<(), GiveUpReason> {
        self.has_paid = self.shared.rules.budget.withdraw();
        self.has_paid.then_some(()).ok_or(GiveUpReason::Budget)
    }

    /// The wait before a retry; `None` if it exceeds the patience.
    fn retry_wait(&mut self, limits: &ServerLimits) -> Option<Duration> {
        if limits.retry_after.is_some() {
            let now = Instant::now();
            return self.reserve(now).ok().map(|turn| turn - now);
        }
        Some(self.shared.backoff(self.attempts - 1)).filter(|wait| *wait <= self.patience)
    }
}

/// A call that ends before it was sent, because it was cancelled or gave up, gives back its turn and the
/// retry that it has paid for.
impl Drop for ClientCall {
    fn drop(&mut self) {
        self.give_back();
        if self.has_paid {
            self.shared.rules.budget.give_back();
        }
    }
}
