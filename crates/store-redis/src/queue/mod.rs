//! Requests of many callers share calls, and calls share connections.
//!
//! There is no task that waits for work. The first request starts a flight, which takes along
//! everything that has gathered by the time it leaves; requests that arrive while it is under way
//! leave with the next call. So a lone request waits for nobody, and the busier it gets, the more
//! requests share a call.
//!
//! With a far Redis, waiting for a call and then for the next one would take twice the round trip.
//! So after a moment the next call follows on the same connection, which keeps them in order.

mod aloft;
mod flight;
mod traffic;
mod waiting;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::Charge;
use tidegate_store::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use self::aloft::KeptBack;
use self::flight::Flight;
use self::waiting::{Waiter, Waiting};
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
    /// For each connection, what tells its flight to take along who waits.
    bells: Box<[Notify]>,
}

/// How far a flight looks for company when some requests must stay behind.
const LOOKED_THROUGH: usize = 256;

impl<C: Carrier> Queue<C> {
    /// `lanes` are the connections, each listed as often as it may have a flight; a flight may have
    /// `depth` calls under way.
    pub(crate) fn new(
        carrier: C,
        lanes: Vec<usize>,
        depth: usize,
        most: usize,
        deadline: Arc<Deadline>,
    ) -> Arc<Self> {
        let bells = (0..=lanes.iter().copied().max().unwrap_or(0)).map(|_| Notify::new()).collect();
        let waiting = Mutex::new(Waiting::new(lanes, depth));
        Arc::new(Self { carrier, most, deadline, waiting, bells })
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

    /// How long calls usually take.
    pub(crate) fn usual(&self) -> Duration {
        self.waiting.lock().traffic.usual()
    }

    /// The connections on which a call has been under way for this long, if that is news.
    pub(crate) fn overdue(&self, time: Duration) -> Vec<usize> {
        self.waiting.lock().traffic.overdue(time)
    }

    /// Has another call leave, if there is a connection for it and enough requests are waiting: the
    /// first one on its connection, or one that follows others there.
    fn start_another(self: &Arc<Self>, waiting: &mut Waiting) {
        let may_have_company = !self.carrier.keeps_slots_apart();
        // A flight that is boarding takes along everyone who waits, and starts another for the
        // rest.
        if may_have_company && waiting.traffic.boards_soon() {
            return;
        }
        // Nothing begins outside a runtime. A caller there learns so from the timer it needs.
        if waiting.is_worth_a_flight(may_have_company)
            && let Ok(runtime) = Handle::try_current()
            && let Some((number, lane)) = waiting.traffic.begin()
        {
            runtime.spawn(Flight::new(Arc::clone(self), number, lane).run());
        } else {
            self.follow_another(waiting);
        }
    }

    /// Has a call follow others on their connection, if that is of use.
    fn follow_another(&self, waiting: &mut Waiting) {
        if let Some(lane) = waiting.begin_another(!self.carrier.keeps_slots_apart()) {
            self.bells[lane].notify_one();
        }
    }

    /// Takes along what is waiting, as far as it fits; `None` if there is nobody.
    fn board(self: &Arc<Self>, flight: u64, lane: usize) -> Option<Departure> {
        let mut waiting = self.waiting.lock();
        let mut boarded = Boarded::default();
        if waiting.is_worth_another(flight, !self.carrier.keeps_slots_apart()) {
            boarded = self.gather(&mut waiting, flight, lane);
        }
        let Boarded { batch, callers, .. } = boarded;
        if callers.is_empty() {
            if waiting.traffic.stayed(flight) {
                waiting.landed(flight);
                self.follow_another(&mut waiting);
            }
            return None;
        }
        let (call, until) = waiting.left((flight, lane), &batch, self.deadline.get());
        self.start_another(&mut waiting);
        drop(waiting);
        Some(Departure { parcel: batch.seal(), callers, call, until })
    }

    /// Records that a call was answered. Returns whether its flight boards now.
    fn answered(self: &Arc<Self>, flight: u64, call: u64) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.answered(flight, call);
        if !waiting.traffic.is_boarding(flight) {
            self.start_another(&mut waiting);
        }
        waiting.traffic.is_boarding(flight)
    }

    /// Has another call leave, now that a flight's last one has been under way for long enough.
    /// Returns whether the flight boards.
    fn is_not_waited_for(self: &Arc<Self>, flight: u64) -> bool {
        let mut waiting = self.waiting.lock();
        self.start_another(&mut waiting);
        waiting.traffic.is_boarding(flight)
    }

    fn is_boarding(&self, flight: u64) -> bool {
        self.waiting.lock().traffic.is_boarding(flight)
    }

    fn gather(&self, waiting: &mut Waiting, flight: u64, lane: usize) -> Boarded {
        let apart = self.carrier.keeps_slots_apart();
        let most = if apart { usize::MAX } else { waiting.fair_share(flight) };
        waiting.give_up(self.deadline.get());
        let mut boarded = Boarded::default();
        // A request that stays behind keeps back later requests for the same thing.
        let (mut slot, mut place, mut kept_back) = (None, 0, KeptBack::default());
        while place < LOOKED_THROUGH {
            waiting.forget_who_left(place);
            let Some(Waiter { ask, callers, .. }) = waiting.get(place) else { break };
            if callers.is_empty() {
                waiting.remove(place);
            } else if apart && *slot.get_or_insert(ask.slot()) != ask.slot() {
                place += 1;
            } else if let Some(lane) =
                kept_back.holds(ask).or_else(|| waiting.held_by(ask, Some(lane)))
            {
                waiting.keep_back(place, lane, &mut kept_back);
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

/// A call that leaves.
struct Departure {
    parcel: Parcel,
    callers: Vec<oneshot::Sender<Answer>>,
    /// Its number.
    call: u64,
    /// Until when others wait for it, rather than follow it; for good if nothing is said.
    until: Option<Instant>,
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

fn too_many(waiting: usize) -> StoreError {
    StoreError::new(StoreErrorKind::Overloaded, format!("{waiting} requests wait already"))
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that carried the request has ended")
}

#[cfg(test)]
mod tests;
