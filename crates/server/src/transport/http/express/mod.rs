//! Checks that are answered without hyper.
//!
//! A check is a few hundred bytes, and to most clients the only thing that they ever ask for. hyper,
//! which is made for everything, takes longer to read it and to write the answer than it takes to
//! decide. So as long as a client sends nothing but plain checks, each of them whole, they are
//! answered here. The first bytes that are anything else, or incomplete, are hyper's to read, and so
//! is everything behind them: what HTTP is beyond this is known there alone.

mod recognise;
mod respond;

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tidegate::{Plan, Store};
use tidegate_http::Answer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use self::recognise::{Seen, recognise};
use self::respond::Output;
use super::check;
use super::connection::Connection;
use super::problem::Refusal;
use crate::{App, Config};

/// Answers checks for as long as nothing else comes. Says whether the connection goes on: what was
/// read of it is then put back.
pub(super) async fn serve<S: Store>(
    connection: &mut Connection,
    app: &App<S>,
    config: &Config,
) -> bool {
    // A trace wants to know more of a request than its body.
    if app.tracer().is_some() {
        return true;
    }
    let mut express =
        Express { connection, input: vec![0; INPUT], read: 0, output: Output::default() };
    // The client has left, or has taken too long.
    let Some(()) = express.run(app, config).await else { return false };
    express.input.truncate(express.read);
    express.connection.unread = express.input;
    true
}

struct Express<'c> {
    connection: &'c mut Connection,
    /// What was read, up to `read`.
    input: Vec<u8>,
    read: usize,
    output: Output,
}

impl Express<'_> {
    /// `None` when the connection is over.
    async fn run<S: Store>(&mut self, app: &App<S>, config: &Config) -> Option<()> {
        loop {
            let is_other = self.answer(app, config).await?;
            if is_other || self.read == self.input.len() || !self.read_more().await? {
                return Some(());
            }
        }
    }

    /// Answers the checks that are there. Says whether what follows is something else.
    async fn answer<S: Store>(&mut self, app: &App<S>, config: &Config) -> Option<bool> {
        let mut at = 0_usize;
        let is_other = loop {
            let rest = self.input.get(at..self.read).unwrap_or_default();
            match recognise(rest, config) {
                Seen::Check { body, length } => {
                    let _answering = self.connection.progress.answering();
                    let output = &mut self.output;
                    let tell =
                        |plan: &Plan, outcome: Result<&Answer<'_, '_>, Refusal>| match outcome {
                            Ok(answer) => output.decided(plan, answer),
                            Err(refusal) => output.add(&refusal.into()),
                        };
                    check::decide(app, body, tell).await;
                    at = at.saturating_add(length);
                }
                Seen::Part => break false,
                Seen::Other => break true,
            }
            if self.output.bytes().len() > MAX_OUTPUT {
                self.send().await?;
            }
        };
        self.send().await?;
        self.input.copy_within(at..self.read, 0);
        self.read = self.read.saturating_sub(at);
        Some(is_other)
    }

    /// Whether more has come that may be a check. Some of one is not waited for as long as silence.
    async fn read_more(&mut self) -> Option<bool> {
        match self.read {
            0 => poll_fn(|cx| self.poll_read(cx)).await,
            _ => timeout(PATIENCE, poll_fn(|cx| self.poll_read(cx))).await.unwrap_or(Some(false)),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<bool>> {
        let Connection { stream, watch, .. } = &mut *self.connection;
        // The last answers say that they are the last: that is hyper's to do.
        if watch.is_told_to_close(cx) {
            return Poll::Ready(Some(false));
        }
        let mut buf = ReadBuf::new(self.input.get_mut(self.read..).unwrap_or_default());
        match Pin::new(stream).poll_read(cx, &mut buf) {
            Poll::Pending => watch.poll_deadline(cx).map(|()| None),
            Poll::Ready(Err(_)) => Poll::Ready(None),
            Poll::Ready(Ok(())) => {
                let count = buf.filled().len();
                self.read = self.read.saturating_add(count);
                // Who leaves in the middle of something may yet be told what is wrong with it.
                Poll::Ready(if self.read == 0 { None } else { Some(count > 0) })
            }
        }
    }

    /// Sends the answers that wait; `None` when that cannot be done in time.
    async fn send(&mut self) -> Option<()> {
        if self.output.bytes().is_empty() {
            return Some(());
        }
        let mut sent = 0;
        poll_fn(|cx| match self.poll_send(cx, &mut sent) {
            Poll::Ready(outcome) => Poll::Ready(outcome.ok()),
            Poll::Pending => self.connection.watch.poll_deadline(cx).map(|()| None),
        })
        .await?;
        self.output.clear();
        Some(())
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

/// Room for what has come: some dozens of checks.
const INPUT: usize = 8 << 10;
/// Answers that wait are sent when they are as long as this.
const MAX_OUTPUT: usize = 16 << 10;
/// How long the rest of a check may take.
const PATIENCE: Duration = Duration::from_millis(50);
