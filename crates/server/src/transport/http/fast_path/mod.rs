//! Checks that are answered without hyper.
//!
//! A check is a few hundred bytes, and for most clients the only thing that they ever ask for.
//! hyper, which is made for everything, takes longer to read it and to write the answer than it
//! takes to decide. So as long as a client sends nothing but plain checks, each of them whole, they
//! are answered here. The first bytes that are anything else, or incomplete, are left to hyper, and
//! so is everything after them: only hyper knows the rest of HTTP.

mod input;
mod output;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate::{Decision, Plan, RequestCharges, Store};
use tidegate_http::RateLimitAnswer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use self::input::{FastPathInput, recognise};
use self::output::FastPathOutput;
use super::connection::{FastPathOutcome, HttpConnection};
use super::refusal::HttpRefusal;
use super::timer::HttpTimerAction;
use super::{HttpListenerContext, HttpResponse, check};
use crate::{App, ListenerKind, RefusalReason};

/// Answers checks for as long as nothing else comes. What was read and is something else is put back.
pub(super) async fn serve<S: Store>(
    connection: &mut HttpConnection,
    door: &HttpListenerContext<S>,
) -> FastPathOutcome {
    // A trace needs more of a request than its body; and the last answers say that they are the last.
    if door.app.tracer().is_some() || connection.progress.is_closing() {
        return FastPathOutcome::Hyper;
    }
    let mut input = std::mem::take(&mut connection.unread);
    let read = input.len();
    input.resize(INPUT.max(read), 0);
    let output = FastPathOutput::default();
    let mut express = HttpFastPath { connection, input, read, part_until: None, output };
    let Err(flow) = express.run(door).await;
    if flow == FastPathOutcome::Hyper {
        express.input.truncate(express.read);
        express.connection.unread = express.input;
    }
    flow
}

struct HttpFastPath<'c> {
    connection: &'c mut HttpConnection,
    /// What was read, up to `read`.
    input: Vec<u8>,
    read: usize,
    /// While part of a check has arrived: how long the rest may take.
    part_until: Option<Instant>,
    output: FastPathOutput,
}

impl HttpFastPath<'_> {
    /// Until the connection goes on in another way.
    async fn run<S: Store>(
        &mut self,
        door: &HttpListenerContext<S>,
    ) -> Result<Infallible, FastPathOutcome> {
        loop {
            let came_full = self.read == self.input.len();
            let is_other = self.answer(door).await?;
            if is_other || self.read == self.input.len() {
                return Err(FastPathOutcome::Hyper);
            }
            self.read_more().await?;
            if came_full {
                // A client that always has more to ask lets others ask too.
                yield_now().await;
            }
        }
    }

    /// Answers the checks that have arrived. Returns whether what follows is something else.
    async fn answer<S: Store>(
        &mut self,
        door: &HttpListenerContext<S>,
    ) -> Result<bool, FastPathOutcome> {
        let app = &door.app;
        let mut at = 0_usize;
        let is_other = loop {
            let rest = self.input.get(at..self.read).unwrap_or_default();
            match recognise(rest, &door.config, door.is_local) {
                FastPathInput::Check { body, length } => {
                    at = at.saturating_add(length);
                    // Once: the whole answer uses one plan, whatever is loaded meanwhile.
                    let plan = app.limiter().plan();
                    match check::request_charges(&plan, body) {
                        Ok(owed) => self.decide(app, &plan, &owed).await?,
                        Err(refusal) => self.output.add_response(&refuse(app, refusal)),
                    }
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
        owed: &RequestCharges<'_>,
    ) -> Result<(), FastPathOutcome> {
        let decision = match app.try_decide(owed) {
            Some(decision) => decision,
            None => self.decide_later(app, owed).await?,
        };
        self.output.add_decision(plan, &RateLimitAnswer::of_charges(owed, &decision));
        Ok(())
    }

    async fn decide_later<S: Store>(
        &mut self,
        app: &App<S>,
        owed: &RequestCharges<'_>,
    ) -> Result<Decision, FastPathOutcome> {
        let mut settling = pin!(app.decide_later(owed));
        if let Poll::Ready(decision) = poll_fn(|cx| Poll::Ready(settling.as_mut().poll(cx))).await {
            return Ok(decision);
        }
        // What was decided before does not wait for the store.
        self.send().await?;
        let _answering = self.connection.progress.begin_answer();
        Ok(settling.await)
    }

    /// Reads more that may be a check. The rest of a partial one is waited for a moment.
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
        let HttpConnection { stream, timer: watch, .. } = &mut *self.connection;
        // The last answers say that they are the last: that is left to hyper.
        if watch.should_close(cx) {
            return Poll::Ready(Err(FastPathOutcome::Hyper));
        }
        let mut buf = ReadBuf::new(self.input.get_mut(self.read..).unwrap_or_default());
        match Pin::new(stream).poll_read(cx, &mut buf) {
            Poll::Pending if self.read > 0 => Poll::Pending,
            Poll::Pending => watch.poll_action(cx).map(|due| match due {
                HttpTimerAction::Rest => Err(FastPathOutcome::Rest),
                HttpTimerAction::YieldSeat | HttpTimerAction::Close => Err(FastPathOutcome::Closed),
            }),
            Poll::Ready(Err(_)) => Poll::Ready(Err(FastPathOutcome::Closed)),
            Poll::Ready(Ok(())) => {
                let count = buf.filled().len();
                self.read = self.read.saturating_add(count);
                // The end is left to hyper as well.
                Poll::Ready(if count > 0 { Ok(()) } else { Err(FastPathOutcome::Hyper) })
            }
        }
    }

    /// Sends the pending answers, if that can be done in time.
    async fn send(&mut self) -> Result<(), FastPathOutcome> {
        if self.output.bytes().is_empty() {
            return Ok(());
        }
        self.connection.progress.mark_answered();
        let mut sent = 0;
        poll_fn(|cx| match self.poll_send(cx, &mut sent) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| FastPathOutcome::Closed)),
            Poll::Pending => {
                let watch = &mut self.connection.timer;
                watch.should_close(cx);
                // Who does not read is not at rest.
                while let Poll::Ready(due) = watch.poll_action(cx) {
                    if due != HttpTimerAction::Rest {
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

/// Room for what has arrived: some dozens of checks.
const INPUT: usize = 8 << 10;
/// Pending answers are sent once they are this long.
const MAX_OUTPUT: usize = 16 << 10;
/// How long the rest of a check may take, before hyper waits for it instead.
const PART_TIMEOUT: Duration = Duration::from_millis(50);
