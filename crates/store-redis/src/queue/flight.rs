//! The calls on one connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::{Carrier, Departure, Queue};
use crate::batch::Answer;

/// Calls on one connection that follow one another, until nobody is waiting. One task has them all
/// and polls them in order, so they are sent in the order in which they left the queue.
pub(super) struct Flight<C: Carrier> {
    queue: Arc<Queue<C>>,
    number: u64,
    lane: usize,
    /// Calls under way, the oldest first.
    calls: VecDeque<UnderWay>,
    landed: bool,
}

struct UnderWay {
    number: u64,
    callers: Vec<oneshot::Sender<Answer>>,
    answers: Pin<Box<dyn Future<Output = Vec<Answer>> + Send>>,
}

impl<C: Carrier> Flight<C> {
    pub(super) const fn new(queue: Arc<Queue<C>>, number: u64, lane: usize) -> Self {
        Self { queue, number, lane, calls: VecDeque::new(), landed: false }
    }

    pub(super) async fn run(mut self) {
        self.go_on().await;
        self.landed = true;
    }

    /// Takes calls back and sends others, as long as there are any.
    async fn go_on(&mut self) {
        let (queue, flight, lane) = (Arc::clone(&self.queue), self.number, self.lane);
        let Some(mut until) = self.depart().await else { return };
        let mut patience = pin!(sleep_until(until.unwrap_or_else(Instant::now)));
        let mut is_followed = until.is_some();
        while !self.calls.is_empty() {
            let boards = tokio::select! {
                biased;
                (place, answers) = poll_fn(|context| poll_in_order(&mut self.calls, context)) => {
                    self.deliver(place, answers)
                }
                () = patience.as_mut(), if until.is_some() => {
                    until = None;
                    queue.is_not_waited_for(flight)
                }
                () = queue.bells[lane].notified(), if is_followed => queue.is_boarding(flight),
            };
            if boards && let Some(later) = self.depart().await {
                (until, is_followed) = (later, later.is_some());
                if let Some(later) = later {
                    patience.as_mut().reset(later);
                }
            }
        }
    }

    /// Sends what is waiting, if anybody is. Returns until when those who come later wait for it; for
    /// good if nothing is said.
    async fn depart(&mut self) -> Option<Option<Instant>> {
        // A caller that was just answered may ask again at once: let it come along.
        tokio::task::yield_now().await;
        let Departure { parcel, callers, call, until } =
            self.queue.board(self.number, self.lane)?;
        let (queue, lane) = (Arc::clone(&self.queue), self.lane);
        let answers = Box::pin(async move { queue.carrier.carry(lane, &parcel).await });
        self.calls.push_back(UnderWay { number: call, callers, answers });
        Some(until)
    }

    /// Gives callers their answers. Returns whether there is another call to send.
    fn deliver(&mut self, place: usize, answers: Vec<Answer>) -> bool {
        let Some(call) = self.calls.remove(place) else { return false };
        let boards = self.queue.answered(self.number, call.number);
        for (caller, answer) in call.callers.into_iter().zip(answers) {
            // A caller that no longer waits gets nothing.
            let _ = caller.send(answer);
        }
        boards
    }
}

/// The first call that has been answered. Redis answers them in order, too.
fn poll_in_order(
    calls: &mut VecDeque<UnderWay>,
    context: &mut Context<'_>,
) -> Poll<(usize, Vec<Answer>)> {
    let mut calls = calls.iter_mut().enumerate();
    let answered = calls.find_map(|(place, call)| match call.answers.as_mut().poll(context) {
        Poll::Ready(answers) => Some((place, answers)),
        Poll::Pending => None,
    });
    answered.map_or(Poll::Pending, Poll::Ready)
}

/// A flight whose runtime ended under it, or that panicked, makes room for another one.
impl<C: Carrier> Drop for Flight<C> {
    fn drop(&mut self) {
        if !self.landed {
            self.queue.waiting.lock().landed(self.number);
        }
    }
}
