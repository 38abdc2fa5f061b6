//! A request's body as it comes from the client, and how slowly it may come.
//!
//! A request that is under way takes one of a service's places, so a client must not be able to keep
//! one with a byte now and then. Only the time is counted that the client lets us wait: a service that
//! reads slowly is not the client's fault. Once the service has begun to answer, the two may talk as
//! slowly as they like, as calls in both directions do.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tidegate::config::gateway::UploadRules;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::buffers::UploadReservation;

/// A body, and the patience with it.
#[derive(Debug)]
pub(crate) struct UploadBody {
    body: Incoming,
    pace: UploadTimer,
    /// Memory for it, until its end.
    room: Option<UploadReservation>,
}

/// Why there is no more of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFailure {
    /// The client broke off.
    Broken,
    /// It takes too long.
    Slow,
}

impl UploadBody {
    /// `idle` is how long a client that has been fast enough may pause.
    pub(crate) fn new(body: Incoming, rules: &UploadRules, idle: Duration) -> Self {
        Self { body, pace: UploadTimer::new(rules, idle), room: None }
    }

    /// In this room.
    pub(crate) fn with_reservation(self, room: Option<UploadReservation>) -> Self {
        Self { room, ..self }
    }

    /// The service has begun to answer.
    pub(crate) fn stop_timer(&mut self) {
        self.pace.is_over = true;
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadFailure>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.pace.record_bytes(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(UploadFailure::Broken))),
            Poll::Ready(None) => {
                self.room = None;
                Poll::Ready(None)
            }
            Poll::Pending => self.pace.poll_expired(cx).map(|()| Some(Err(UploadFailure::Slow))),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How long to wait for a client that is slow.
#[derive(Debug)]
struct UploadTimer {
    /// Bytes a second; zero for any.
    least_rate: u64,
    /// The most that may be left.
    most: Duration,
    /// How much longer the client may let us wait.
    left: Duration,
    /// Since when it does.
    since: Option<Instant>,
    /// When all of it has to be there.
    until: Option<Instant>,
    bell: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl UploadTimer {
    fn new(rules: &UploadRules, idle: Duration) -> Self {
        let grace: Duration = rules.grace.into();
        Self {
            least_rate: rules.least_rate,
            most: grace.max(idle),
            left: grace,
            since: None,
            until: rules.longest.map(|longest| Instant::now() + longest.into()),
            bell: None,
            is_over: rules.least_rate == 0 && rules.longest.is_none(),
        }
    }

    fn record_bytes(&mut self, bytes: usize) {
        if self.is_over || self.least_rate == 0 {
            return;
        }
        if let Some(since) = self.since.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
        let micros = (bytes as u64).saturating_mul(1_000_000) / self.least_rate;
        self.left = self.left.saturating_add(Duration::from_micros(micros)).min(self.most);
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_over {
            return Poll::Pending;
        }
        let slow =
            (self.least_rate > 0).then(|| *self.since.get_or_insert_with(Instant::now) + self.left);
        let Some(until) = slow.into_iter().chain(self.until).min() else { return Poll::Pending };
        let bell = self.bell.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if bell.deadline() != until {
            bell.as_mut().reset(until);
        }
        bell.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tidegate::Span;
    use tokio::time::{advance, timeout};

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    fn pace(least_rate: u64, longest: Option<Span>) -> UploadTimer {
        let rules = UploadRules { least_rate, grace: Span::from_secs(10), longest };
        UploadTimer::new(&rules, IDLE)
    }

    /// For how long a client is waited for.
    async fn patience(pace: &mut UploadTimer) -> u64 {
        let start = Instant::now();
        let _ = timeout(Duration::from_secs(3_600), poll_fn(|cx| pace.poll_expired(cx))).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn attack_12_a_byte_now_and_then_is_not_enough() {
        let mut pace = pace(240, None);
        let start = Instant::now();
        loop {
            let waited = timeout(Duration::from_secs(3), poll_fn(|cx| pace.poll_expired(cx))).await;
            if waited.is_ok() {
                break;
            }
            pace.record_bytes(1);
        }
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_fast_enough_may_take_as_long_as_it_likes_and_pause() {
        let mut pace = pace(240, None);
        for _ in 0..10_000 {
            let waited = timeout(Duration::from_secs(1), poll_fn(|cx| pace.poll_expired(cx))).await;
            assert!(waited.is_err());
            pace.record_bytes(240);
        }
        assert_eq!(patience(&mut pace).await, 10);
        // However much has come, nobody waits for longer than for a silent one.
        pace.record_bytes(1 << 30);
        assert_eq!(patience(&mut pace).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_service_takes_is_not_the_clients_fault() {
        let mut pace = pace(240, None);
        pace.record_bytes(1);
        advance(Duration::from_secs(100)).await;
        pace.record_bytes(1);
        assert_eq!(patience(&mut pace).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_it_has_to_come_in_time_if_that_is_said() {
        assert_eq!(patience(&mut pace(0, Some(Span::from_secs(90)))).await, 90);
        assert_eq!(patience(&mut pace(240, Some(Span::from_secs(5)))).await, 5);
        assert_eq!(patience(&mut pace(0, None)).await, 3_600);
        let mut answered = pace(240, None);
        answered.is_over = true;
        assert_eq!(patience(&mut answered).await, 3_600);
    }
}
