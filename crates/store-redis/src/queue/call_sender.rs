//! Sends calls on one connection, and delivers their answers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::{OpenCall, RedisQueue, RedisTransport};
use crate::batch::RedisAnswer;

/// Sends calls on one connection until no request is waiting. One task owns the calls and polls them
/// in order, so they are sent in the order in which they left the queue.
pub(super) struct CallSender<C: RedisTransport> {
    queue: Arc<RedisQueue<C>>,
    number: u64,
    lane: usize,
    /// Calls under way, the oldest first.
    calls: VecDeque<SentCall>,
    is_done: bool,
}

/// A call under way, and the callers that get its answers.
struct SentCall {
    number: u64,
    callers: Vec<oneshot::Sender<RedisAnswer>>,
    answers: Pin<Box<dyn Future<Output = Vec<RedisAnswer>> + Send>>,
}

impl<C: RedisTransport> CallSender<C> {
    pub(super) const fn new(queue: Arc<RedisQueue<C>>, number: u64, lane: usize) -> Self {
        Self { queue, number, lane, calls: VecDeque::new(), is_done: false }
    }

    pub(super) async fn run(mut self) {
        self.send_calls().await;
        self.is_done = true;
    }

    /// Delivers answers and sends further calls, until none is under way.
    async fn send_calls(&mut self) {
        let (queue, number, lane) = (Arc::clone(&self.queue), self.number, self.lane);
        let Some(mut until) = self.send_next().await else { return };
        let mut patience = pin!(sleep_until(until.unwrap_or_else(Instant::now)));
        let mut is_followed = until.is_some();
        while !self.calls.is_empty() {
            let gathers = tokio::select! {
                biased;
                (index, answers) = poll_fn(|context| poll_in_order(&mut self.calls, context)) => {
                    self.deliver_answers(index, answers)
                }
                () = patience.as_mut(), if until.is_some() => {
                    until = None;
                    queue.release_followers(number)
                }
                () = queue.sender_wakeups[lane].notified(), if is_followed => queue.is_gathering(number),
            };
            if gathers && let Some(later) = self.send_next().await {
                (until, is_followed) = (later, later.is_some());
                if let Some(later) = later {
                    patience.as_mut().reset(later);
                }
            }
        }
    }

    /// Sends the waiting requests, if there are any. Returns until when later requests wait for this
    /// call rather than follow it; the inner `None` means until its end.
    async fn send_next(&mut self) -> Option<Option<Instant>> {
        // A caller that was just answered may immediately send another request: include it.
        tokio::task::yield_now().await;
        let OpenCall { batch_call, callers, call, until } =
            self.queue.open_call(self.number, self.lane)?;
        let (queue, lane) = (Arc::clone(&self.queue), self.lane);
        let answers = Box::pin(async move { queue.transport.send(lane, &batch_call).await });
        self.calls.push_back(SentCall { number: call, callers, answers });
        Some(until)
    }

    /// Gives callers their answers. Returns whether to send another call.
    fn deliver_answers(&mut self, index: usize, answers: Vec<RedisAnswer>) -> bool {
        let Some(call) = self.calls.remove(index) else { return false };
        let gathers = self.queue.record_answer(self.number, call.number);
        for (caller, answer) in call.callers.into_iter().zip(answers) {
            // The caller may have stopped waiting.
            let _ = caller.send(answer);
        }
        gathers
    }
}

/// The first call that has been answered. Redis answers them in order, too.
fn poll_in_order(
    calls: &mut VecDeque<SentCall>,
    context: &mut Context<'_>,
) -> Poll<(usize, Vec<RedisAnswer>)> {
    let mut calls = calls.iter_mut().enumerate();
    let answered = calls.find_map(|(index, call)| match call.answers.as_mut().poll(context) {
        Poll::Ready(answers) => Some((index, answers)),
        Poll::Pending => None,
    });
    answered.map_or(Poll::Pending, Poll::Ready)
}

/// Frees the connection for another sender if the runtime ended or the task panicked.
impl<C: RedisTransport> Drop for CallSender<C> {
    fn drop(&mut self) {
        if !self.is_done {
            self.queue.backlog.lock().end_sender(self.number);
        }
    }
}
