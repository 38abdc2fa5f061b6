//! Requests of many callers share calls, and calls share connections.
//!
//! There is no timer and no task that waits for work. The first request starts a flight, which
//! takes along everything that has gathered by the time it leaves; requests that arrive while it is
//! under way leave with the next one. So a lone request waits for nobody, and the busier it gets,
//! the more requests share a call.

mod aloft;
mod waiting;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Charge;
use tidegate_store::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::aloft::Marks;
use self::waiting::{Departure, Waiter, Waiting};
use crate::batch::{Answer, Ask, Batch, Crowd};
use crate::deadline::Deadline;
use crate::parcel::Parcel;

/// Sends one call, and gives each of its requests an answer.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Whether all keys of a call must be in one slot.
    fn keeps_slots_apart(&self) -> bool;

    /// Carries requests to Redis and back.
    fn carry(&self, lane: usize, parcel: &Parcel) -> impl Future<Output = Vec<Answer>> + Send;
}

/// Requests waiting for one of several connections.
#[derive(Debug)]
pub(crate) struct Queue<C> {
    carrier: C,
    /// How many requests may wait for a flight.
    most: usize,
    deadline: Arc<Deadline>,
    waiting: Mutex<Waiting>,
}

/// How far a flight looks for company when some requests must stay behind.
const LOOKED_THROUGH: usize = 256;

impl<C: Carrier> Queue<C> {
    /// `lanes` are the connections, each listed as often as it may have a call under way.
    pub(crate) fn new(
        carrier: C,
        lanes: Vec<usize>,
        most: usize,
        deadline: Arc<Deadline>,
    ) -> Arc<Self> {
        Arc::new(Self { carrier, most, deadline, waiting: Mutex::new(Waiting::new(lanes)) })
    }

    /// Asks, and gets an answer in turn. A caller that stops waiting before its request has left
    /// thereby withdraws it.
    ///
    /// Not an `async fn`: a future with a request in it would be moved from place to place, which
    /// takes longer than everything that is done here.
    pub(crate) fn ask(self: &Arc<Self>, ask: Ask) -> Asked {
        let mut waiting = self.waiting.lock();
        let (answer, answered) = oneshot::channel();
        if waiting.len() >= self.most {
            let _ = answer.send(Err(too_many(waiting.len())));
        } else {
            waiting.push(ask, answer, self.deadline.get());
            self.start_another(&mut waiting);
        }
        Asked(answered)
    }

    /// Joins a waiting request that asks for the same, if there is one.
    pub(crate) fn join(self: &Arc<Self>, charge: &Charge<'_>) -> Option<Asked> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= self.most {
            return None;
        }
        let answered = waiting.join(charge)?;
        self.start_another(&mut waiting);
        Some(Asked(answered))
    }

    /// The connections on which a call has been under way for this long.
    pub(crate) fn overdue(&self, deadline: Duration) -> Vec<usize> {
        let waiting = self.waiting.lock();
        let late = waiting.under_way.iter().filter(|call| call.at.elapsed() >= deadline);
        let mut lanes: Vec<_> = late.map(|call| call.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// Starts another flight, if there is a connection for it and enough requests are waiting.
    fn start_another(self: &Arc<Self>, waiting: &mut Waiting) {
        // A flight that is boarding takes along everyone who waits, and starts another for the
        // rest. Unless its runtime is kept alive but no longer driven: then it boards forever.
        let boards_soon = |call: &Departure| call.is_boarding() && call.is_recent();
        let is_seen_to =
            !self.carrier.keeps_slots_apart() && waiting.under_way.iter().any(boards_soon);
        if is_seen_to || !waiting.is_worth_a_flight(!self.carrier.keeps_slots_apart()) {
            return;
        }
        // Nothing flies outside a runtime. A caller there learns so from the timer it needs.
        let Ok(runtime) = Handle::try_current() else { return };
        let Some((number, lane)) = waiting.begin() else { return };
        runtime.spawn(Flight { queue: Arc::clone(self), number, lane, landed: false }.run());
    }

    /// Takes along what is waiting, as far as it fits; `None` ends the flight.
    fn board(self: &Arc<Self>, flight: u64) -> Option<(Parcel, Vec<oneshot::Sender<Answer>>)> {
        let mut waiting = self.waiting.lock();
        if !waiting.is_worth_another(flight, !self.carrier.keeps_slots_apart()) {
            waiting.landed(flight);
            return None;
        }
        let boarded = self.gather(&mut waiting, flight);
        if boarded.callers.is_empty() {
            waiting.landed(flight);
            return None;
        }
        waiting.left(flight, &boarded.batch.crowds, boarded.batch.keys.len());
        self.start_another(&mut waiting);
        drop(waiting);
        Some((boarded.batch.seal(), boarded.callers))
    }

    fn gather(&self, waiting: &mut Waiting, flight: u64) -> Boarded {
        let apart = self.carrier.keeps_slots_apart();
        let most = if apart { usize::MAX } else { waiting.fair_share(flight) };
        waiting.give_up(self.deadline.get());
        let mut boarded = Boarded::default();
        // A request that is held keeps back later requests for the same thing.
        let (mut slot, mut place, mut kept_back) = (None, 0, Marks::new());
        while place < LOOKED_THROUGH {
            waiting.forget_who_left(place);
            let Some(Waiter { ask, callers, .. }) = waiting.get(place) else { break };
            if callers.is_empty() {
                waiting.remove(place);
            } else if apart && *slot.get_or_insert(ask.slot()) != ask.slot() {
                place += 1;
            } else if waiting.holds(ask) {
                waiting.keep_back(place, &mut kept_back);
                place += 1;
            } else if (boarded.share < most || boarded.batch.knows(ask))
                && boarded.batch.has_room_for(ask, callers.len())
            {
                let Some(waiter) = waiting.remove(place) else { break };
                boarded.add(waiter);
            } else {
                break;
            }
        }
        waiting.clear(&mut kept_back);
        boarded
    }
}

/// The answer to a request, once it is there.
#[derive(Debug)]
pub(crate) struct Asked(oneshot::Receiver<Answer>);

impl Future for Asked {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(abandoned())))
    }
}

/// The requests that come along.
#[derive(Default)]
struct Boarded {
    batch: Batch,
    callers: Vec<oneshot::Sender<Answer>>,
    /// How many of them brought a counter that nobody else had.
    share: usize,
}

impl Boarded {
    fn add(&mut self, waiter: Waiter) {
        let before = self.batch.keys.len();
        self.batch.add(Crowd { ask: waiter.ask, size: waiter.callers.len() });
        self.callers.extend(waiter.callers);
        self.share += usize::from(self.batch.keys.len() > before);
    }
}

/// One call after the other, until nobody is waiting.
struct Flight<C: Carrier> {
    queue: Arc<Queue<C>>,
    number: u64,
    lane: usize,
    landed: bool,
}

impl<C: Carrier> Flight<C> {
    async fn run(mut self) {
        loop {
            // A caller that was just answered may ask again at once: let it come along.
            tokio::task::yield_now().await;
            let Some((parcel, callers)) = self.queue.board(self.number) else { break };
            let answers = self.queue.carrier.carry(self.lane, &parcel).await;
            self.queue.waiting.lock().answered(self.number);
            for (caller, answer) in callers.into_iter().zip(answers) {
                // A caller that no longer waits gets nothing.
                let _ = caller.send(answer);
            }
        }
        self.landed = true;
    }
}

/// A flight whose runtime ended under it, or that panicked, makes room for another one.
impl<C: Carrier> Drop for Flight<C> {
    fn drop(&mut self) {
        if !self.landed {
            self.queue.waiting.lock().landed(self.number);
        }
    }
}

fn too_many(waiting: usize) -> StoreError {
    StoreError::new(StoreErrorKind::Overloaded, format!("{waiting} requests wait already"))
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that carried the request has ended")
}

#[cfg(test)]
mod tests;
