//! Checks that are answered without hyper.
//!
//! A check is a few hundred bytes, and for most clients the only thing that they ever ask for.
//! hyper, which is made for everything, takes longer to read it and to write the answer than it
//! takes to decide. So as long as a client sends nothing but plain checks, each of them whole, they
//! are answered here. The first bytes that are anything else, or incomplete, are left to hyper, and
//! so is everything after them: only hyper knows the rest of HTTP.

mod recognise;
mod respond;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate::{Decision, Owed, Plan, Store};
use tidegate_http::Answer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use self::recognise::{Seen, recognise};
use self::respond::Output;
use super::connection::{Connection, Flow};
use super::problem::Refusal;
use super::watch::Due;
use super::{Door, Response, check};
use crate::{App, ListenerKind, RefusalReason};

/// Answers checks for as long as nothing else comes. What was read and is something else is put back.
pub(super) async fn serve<S: Store>(connection: &mut Connection, door: &Door<S>) -> Flow {
    // A trace needs more of a request than its body; and the last answers say that they are the last.
    if door.app.tracer().is_some() || connection.progress.is_closing() {
        return Flow::Hyper;
    }
    let mut input = std::mem::take(&mut connection.unread);
    let read = input.len();
    input.resize(INPUT.max(read), 0);
    let output = Output::default();
    let mut express = Express { connection, input, read, part_until: None, output };
    let Err(flow) = express.run(door).await;
    if flow == Flow::Hyper {
        express.input.truncate(express.read);
        express.connection.unread = express.input;
    }
    flow
}

struct Express<'c> {
    connection: &'c mut Connection,
    /// What was read, up to `read`.
    input: Vec<u8>,
    read: usize,
    /// While part of a check has arrived: how long the rest may take.
    part_until: Option<Instant>,
    output: Output,
}

impl Express<'_> {
    /// Until the connection goes on in another way.
    async fn run<S: Store>(&mut self, door: &Door<S>) -> Result<Infallible, Flow> {
        loop {
            let came_full = self.read == self.input.len();
            let is_other = self.answer(door).await?;
            if is_other || self.read == self.input.len() {
                return Err(Flow::Hyper);
            }
            self.read_more().await?;
            if came_full {
                // A client that always has more to ask lets others ask too.
                yield_now().await;
            }
        }
    }

    /// Answers the checks that have arrived. Returns whether what follows is something else.
    async fn answer<S: Store>(&mut self, door: &Door<S>) -> Result<bool, Flow> {
        let app = &door.app;
        let mut at = 0_usize;
        let is_other = loop {
            let rest = self.input.get(at..self.read).unwrap_or_default();
            match recognise(rest, &door.config, door.is_local) {
                Seen::Check { body, length } => {
                    at = at.saturating_add(length);
                    // Once: the whole answer uses one plan, whatever is loaded meanwhile.
                    let plan = app.limiter().plan();
                    match check::owed(&plan, body) {
                        Ok(owed) => self.decide(app, &plan, &owed).await?,
                        Err(refusal) => self.output.add(&refused(app, refusal)),
                    }
                }
                Seen::Part => break false,
                Seen::Other => break true,
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
        owed: &Owed<'_>,
    ) -> Result<(), Flow> {
        let decision = match app.settle_at_once(owed) {
            Some(decision) => decision,
            None => self.wait_for(app, owed).await?,
        };
        self.output.decided(plan, &Answer::of_owed(owed, &decision));
        Ok(())
    }

    async fn wait_for<S: Store>(
        &mut self,
        app: &App<S>,
        owed: &Owed<'_>,
    ) -> Result<Decision, Flow> {
        let mut settling = pin!(app.settle_later(owed));
        if let Poll::Ready(decision) = poll_fn(|cx| Poll::Ready(settling.as_mut().poll(cx))).await {
            return Ok(decision);
        }
        // What was decided before does not wait for the store.
        self.send().await?;
        let _answering = self.connection.progress.answering();
        Ok(settling.await)
    }

    /// Reads more that may be a check. The rest of a partial one is waited for a moment.
    async fn read_more(&mut self) -> Result<(), Flow> {
        if self.read == 0 {
            return poll_fn(|cx| self.poll_read(cx)).await;
        }
        let until = *self.part_until.get_or_insert_with(|| Instant::now() + PATIENCE);
        timeout_at(until, poll_fn(|cx| self.poll_read(cx))).await.unwrap_or(Err(Flow::Hyper))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        let Connection { stream, watch, .. } = &mut *self.connection;
        // The last answers say that they are the last: that is left to hyper.
        if watch.is_told_to_close(cx) {
            return Poll::Ready(Err(Flow::Hyper));
        }
        let mut buf = ReadBuf::new(self.input.get_mut(self.read..).unwrap_or_default());
        match Pin::new(stream).poll_read(cx, &mut buf) {
            Poll::Pending if self.read > 0 => Poll::Pending,
            Poll::Pending => watch.poll_due(cx).map(|due| match due {
                Due::Rest => Err(Flow::Rest),
                Due::Leave | Due::Close => Err(Flow::Over),
            }),
            Poll::Ready(Err(_)) => Poll::Ready(Err(Flow::Over)),
            Poll::Ready(Ok(())) => {
                let count = buf.filled().len();
                self.read = self.read.saturating_add(count);
                // The end is left to hyper as well.
                Poll::Ready(if count > 0 { Ok(()) } else { Err(Flow::Hyper) })
            }
        }
    }

    /// Sends the pending answers, if that can be done in time.
    async fn send(&mut self) -> Result<(), Flow> {
        if self.output.bytes().is_empty() {
            return Ok(());
        }
        self.connection.progress.answered();
        let mut sent = 0;
        poll_fn(|cx| match self.poll_send(cx, &mut sent) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| Flow::Over)),
            Poll::Pending => {
                let watch = &mut self.connection.watch;
                watch.is_told_to_close(cx);
                // Who does not read is not at rest.
                while let Poll::Ready(due) = watch.poll_due(cx) {
                    if due != Due::Rest {
                        return Poll::Ready(Err(Flow::Over));
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
fn refused<S: Store>(app: &App<S>, refusal: Refusal) -> Response {
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
const PATIENCE: Duration = Duration::from_millis(50);
