//! A request's body as it arrives from the client, with a minimum rate.
//!
//! A request under way takes one of the service's slots, so a client must not be able to hold one with a
//! byte now and then. Only the time spent waiting for the client counts: a service that reads slowly is not
//! the client's fault. Once the service has begun to respond, there is no minimum rate any more, because
//! bidirectional calls can be slow.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::buffers::UploadReservation;
use crate::config::UploadRules;

/// A request body with its timer and its memory.
#[derive(Debug)]
pub(crate) struct UploadBody {
    body: Incoming,
    timer: UploadTimer,
    /// Memory for the body, until its end.
    reservation: Option<UploadReservation>,
}

/// The reason why a body is incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFailure {
    /// The client aborted the request.
    Broken,
    /// The body arrives too slowly.
    Slow,
}

impl UploadBody {
    /// `idle` is how long a client can pause if it was fast before.
    pub(crate) fn new(body: Incoming, rules: &UploadRules, idle: Duration) -> Self {
        Self { body, timer: UploadTimer::new(rules, idle), reservation: None }
    }

    /// Holds the reservation until the end of the body.
    pub(crate) fn with_reservation(self, reservation: Option<UploadReservation>) -> Self {
        Self { reservation, ..self }
    }

    /// Called when the service has begun to respond.
    pub(crate) fn stop_timer(&mut self) {
        self.timer.is_over = true;
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadFailure>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.timer.record_bytes(frame.data_ref().map_or(0, Bytes::len));
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(UploadFailure::Broken))),
            Poll::Ready(None) => {
                self.reservation = None;
                Poll::Ready(None)
            }
            Poll::Pending => self.timer.poll_expired(cx).map(|()| Some(Err(UploadFailure::Slow))),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The time that a client has left for its body. Waiting uses it up, and every byte adds to it.
#[derive(Debug)]
struct UploadTimer {
    /// Bytes per second; zero for no minimum.
    least_rate: u64,
    /// The upper bound of `left`.
    most: Duration,
    /// How much longer the gateway waits for the client.
    left: Duration,
    /// Since when the gateway has been waiting.
    since: Option<Instant>,
    /// The deadline for the whole body.
    until: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
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
            sleep: None,
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
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if sleep.deadline() != until {
            sleep.as_mut().reset(until);
        }
        sleep.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tidegate::Span;
    use tokio::time::{advance, timeout};

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    fn timer(least_rate: u64, longest: Option<Span>) -> UploadTimer {
        let rules = UploadRules { least_rate, grace: Span::from_secs(10), longest };
        UploadTimer::new(&rules, IDLE)
    }

    /// How long the timer waits for a client, in seconds.
    async fn seconds_waited(timer: &mut UploadTimer) -> u64 {
        let start = Instant::now();
        let _ = timeout(Duration::from_secs(3_600), poll_fn(|cx| timer.poll_expired(cx))).await;
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn attack_12_a_byte_now_and_then_is_not_enough() {
        let mut timer = timer(240, None);
        let start = Instant::now();
        for _ in 0..100 {
            let waited =
                timeout(Duration::from_secs(3), poll_fn(|cx| timer.poll_expired(cx))).await;
            if waited.is_ok() {
                break;
            }
            timer.record_bytes(1);
        }
        assert_eq!(start.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_fast_enough_may_take_as_long_as_it_likes_and_pause() {
        let mut timer = timer(240, None);
        for _ in 0..10_000 {
            let waited =
                timeout(Duration::from_secs(1), poll_fn(|cx| timer.poll_expired(cx))).await;
            assert!(waited.is_err());
            timer.record_bytes(240);
        }
        assert_eq!(seconds_waited(&mut timer).await, 10);
        // However much has arrived, a pause is bounded by `IDLE`.
        timer.record_bytes(1 << 30);
        assert_eq!(seconds_waited(&mut timer).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_service_takes_is_not_the_clients_fault() {
        let mut timer = timer(240, None);
        timer.record_bytes(1);
        advance(Duration::from_secs(100)).await;
        timer.record_bytes(1);
        assert_eq!(seconds_waited(&mut timer).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn all_of_it_has_to_come_in_time_if_that_is_said() {
        assert_eq!(seconds_waited(&mut timer(0, Some(Span::from_secs(90)))).await, 90);
        assert_eq!(seconds_waited(&mut timer(240, Some(Span::from_secs(5)))).await, 5);
        assert_eq!(seconds_waited(&mut timer(0, None)).await, 3_600);
        let mut answered = timer(240, None);
        answered.is_over = true;
        assert_eq!(seconds_waited(&mut answered).await, 3_600);
    }
}
