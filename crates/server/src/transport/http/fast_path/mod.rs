//! The fast path: answers plain checks over HTTP/1.1 without hyper.
//!
//! A check has a few hundred bytes, and most clients send nothing else. hyper handles all of HTTP, and
//! takes longer to read a check and to write its response than the decision takes. So as long as a client
//! sends only plain, complete checks, they are answered here. Anything else, or a check that stays
//! incomplete, is left to hyper, together with everything after it.

mod input;
mod output;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::StatusCode;
use tidegate::{ChargeIntent, Decision, Plan, Promise, RequestCharges, Store};
use tidegate_http::RateLimitAnswer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use self::input::{FastPathInput, recognise, trace_parent};
use self::output::FastPathOutput;
use super::refusal::HttpRefusal;
use super::{HttpListenerContext, HttpResponse, check};
use crate::net::connection::{FastPathOutcome, HttpConnection, HttpTimerAction};
use crate::service::trace::{TraceSpan, within};
use crate::{App, ListenerKind, RefusalReason};

/// Answers checks until something else arrives. Bytes that are not a check are put back for hyper.
pub(super) async fn serve<S: Store>(
    connection: &mut HttpConnection,
    context: &HttpListenerContext<S>,
) -> FastPathOutcome {
    // The last response has to announce that the connection closes: that is left to hyper.
    if connection.progress.is_closing() {
        return FastPathOutcome::Hyper;
    }
    let mut input = std::mem::take(&mut connection.unread);
    let read = input.len();
    input.resize(INPUT.max(read), 0);
    let output = FastPathOutput::default();
    let mut fast_path = HttpFastPath { connection, input, read, part_until: None, output };
    let Err(outcome) = fast_path.run(context).await;
    if outcome == FastPathOutcome::Hyper {
        fast_path.input.truncate(fast_path.read);
        fast_path.connection.unread = fast_path.input;
    }
    outcome
}

/// A connection while it is served by the fast path.
struct HttpFastPath<'c> {
    connection: &'c mut HttpConnection,
    /// A buffer whose first `read` bytes are unanswered input.
    input: Vec<u8>,
    read: usize,
    /// Set while part of a check has arrived: when hyper takes over.
    part_until: Option<Instant>,
    output: FastPathOutput,
}

impl HttpFastPath<'_> {
    /// Reads and answers checks until the connection continues in another way.
    async fn run<S: Store>(
        &mut self,
        context: &HttpListenerContext<S>,
    ) -> Result<Infallible, FastPathOutcome> {
        loop {
            let was_full = self.read == self.input.len();
            let is_other = self.answer(context).await?;
            if is_other || self.read == self.input.len() {
                return Err(FastPathOutcome::Hyper);
            }
            self.read_more().await?;
            if was_full {
                // A client that always has more requests must not starve the others.
                yield_now().await;
            }
        }
    }

    /// Answers the checks that have arrived. Returns whether something else follows them.
    async fn answer<S: Store>(
        &mut self,
        context: &HttpListenerContext<S>,
    ) -> Result<bool, FastPathOutcome> {
        let app = &context.app;
        let mut at = 0_usize;
        let is_other = loop {
            let rest = self.input.get(at..self.read).unwrap_or_default();
            match recognise(rest, &context.config, context.is_local) {
                FastPathInput::Check { head, body, length } => {
                    at = at.saturating_add(length);
                    let tracer = app.tracer();
                    let mut span =
                        tracer.and_then(|it| it.begin("POST /v1/check", trace_parent(head)));
                    // Load the plan once: the whole response must use one plan, even if another is
                    // loaded meanwhile.
                    let plan = app.limiter().plan();
                    let status = match check::request_charges(&plan, body) {
                        Ok(charges) => self.decide(app, &plan, &charges, &mut span).await?,
                        Err(refusal) => {
                            let response = refuse(app, refusal);
                            self.output.add_response(&response);
                            response.status()
                        }
                    };
                    if let Some(span) = &mut span {
                        span.set_http_status(status);
                    }
                    app.end_span(span);
                }
                FastPathInput::Part => break false,
                FastPathInput::Other => break true,
            }
            if self.output.bytes().len() > MAX_OUTPUT {
                self.send().await?;
            }
        };
        self.send().await?;
        if at > 0 {
            self.connection.is_http1 = true;
            self.part_until = None;
            self.input.copy_within(at..self.read, 0);
            self.read = self.read.saturating_sub(at);
        }
        Ok(is_other)
    }

    async fn decide<S: Store>(
        &mut self,
        app: &App<S>,
        plan: &Plan,
        charges: &RequestCharges<'_>,
        span: &mut Option<Box<TraceSpan>>,
    ) -> Result<StatusCode, FastPathOutcome> {
        let decision = match span {
            None => match app.decide(charges, ChargeIntent::Take) {
                Promise::Ready(decision) => {
                    let answer = RateLimitAnswer::of_charges(charges, &decision);
                    return Ok(self.output.add_decision(plan, &answer));
                }
                Promise::Later(deciding) => self.finish(deciding).await?,
            },
            Some(_) => {
                let deciding = pin!(async { app.decide(charges, ChargeIntent::Take).await });
                self.finish(within(span, deciding)).await?
            }
        };
        Ok(self.output.add_decision(plan, &RateLimitAnswer::of_charges(charges, &decision)))
    }

    /// The decision of a future. If it is not there at once, earlier responses do not wait for it.
    async fn finish(
        &mut self,
        deciding: impl Future<Output = Decision>,
    ) -> Result<Decision, FastPathOutcome> {
        let mut deciding = pin!(deciding);
        if let Poll::Ready(decision) = poll_fn(|cx| Poll::Ready(deciding.as_mut().poll(cx))).await {
            return Ok(decision);
        }
        self.send().await?;
        let _answering = self.connection.progress.begin();
        Ok(deciding.await)
    }

    /// Reads more bytes. If part of a check has arrived, waits only [`PART_TIMEOUT`] for the rest.
    async fn read_more(&mut self) -> Result<(), FastPathOutcome> {
        if self.read == 0 {
            return poll_fn(|cx| self.poll_read(cx)).await;
        }
        let until = *self.part_until.get_or_insert_with(|| Instant::now() + PART_TIMEOUT);
        timeout_at(until, poll_fn(|cx| self.poll_read(cx)))
            .await
            .unwrap_or(Err(FastPathOutcome::Hyper))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FastPathOutcome>> {
        let HttpConnection { stream, timer, .. } = &mut *self.connection;
        // The last response has to announce that it is the last: that is left to hyper.
        if timer.should_close(cx) {
            return Poll::Ready(Err(FastPathOutcome::Hyper));
        }
        let mut buf = ReadBuf::new(self.input.get_mut(self.read..).unwrap_or_default());
        match Pin::new(stream).poll_read(cx, &mut buf) {
            Poll::Pending if self.read > 0 => Poll::Pending,
            Poll::Pending => timer.poll_action(cx).map(|action| match action {
                HttpTimerAction::Rest => Err(FastPathOutcome::Rest),
                HttpTimerAction::YieldSeat | HttpTimerAction::Close => Err(FastPathOutcome::Closed),
            }),
            Poll::Ready(Err(_)) => Poll::Ready(Err(FastPathOutcome::Closed)),
            Poll::Ready(Ok(())) => {
                let count = buf.filled().len();
                self.read = self.read.saturating_add(count);
                // The end of the stream is left to hyper as well.
                Poll::Ready(if count > 0 { Ok(()) } else { Err(FastPathOutcome::Hyper) })
            }
        }
    }

    /// Sends the pending responses within the connection's timeouts.
    async fn send(&mut self) -> Result<(), FastPathOutcome> {
        if self.output.bytes().is_empty() {
            return Ok(());
        }
        self.connection.progress.mark_answered();
        let mut sent = 0;
        poll_fn(|cx| match self.poll_send(cx, &mut sent) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| FastPathOutcome::Closed)),
            Poll::Pending => {
                let timer = &mut self.connection.timer;
                timer.should_close(cx);
                // A client that does not read its responses is not at rest.
                while let Poll::Ready(action) = timer.poll_action(cx) {
                    if action != HttpTimerAction::Rest {
                        return Poll::Ready(Err(FastPathOutcome::Closed));
                    }
                }
                Poll::Pending
            }
        })
        .await?;
        self.output.clear();
        Ok(())
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, sent: &mut usize) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(&mut self.connection.stream);
        while let Some(rest) = self.output.bytes().get(*sent..).filter(|rest| !rest.is_empty()) {
            match ready!(stream.as_mut().poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                count => *sent = sent.saturating_add(count),
            }
        }
        stream.poll_flush(cx)
    }
}

#[cold]
fn refuse<S: Store>(app: &App<S>, refusal: HttpRefusal) -> HttpResponse {
    if let Some(reason) = RefusalReason::of(refusal.status()) {
        app.count_refusal(ListenerKind::Http, reason);
    }
    refusal.into()
}

/// The size of the input buffer: room for some dozens of checks.
const INPUT: usize = 8 << 10;
/// Pending responses are sent once they have this many bytes.
const MAX_OUTPUT: usize = 16 << 10;
/// How long the rest of a check can take before hyper takes over.
const PART_TIMEOUT: Duration = Duration::from_millis(50);
