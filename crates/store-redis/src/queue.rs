//! Requests of many callers share calls, and calls share connections.
//!
//! There is no timer and no task that waits for work. Whoever asks first starts a flight, which
//! takes along what has gathered until it leaves; what comes while it is under way leaves with the
//! next one. So a lone request waits for nobody, and the busier it gets, the more share a call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::{StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::batch::{Answer, Ask, Batch};
use crate::parcel::Parcel;

/// Sends one call, and gives each of its requests an answer.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Whether all keys of a call must be in one slot.
    fn keeps_slots_apart(&self) -> bool;

    /// Carries requests to Redis and back.
    fn carry(&self, lane: usize, parcel: &Parcel) -> impl Future<Output = Vec<Answer>> + Send;
}

/// What waits for one of some connections.
#[derive(Debug)]
pub(crate) struct Queue<C> {
    carrier: C,
    /// How many requests may wait for a flight.
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    asks: VecDeque<(Ask, oneshot::Sender<Answer>)>,
    /// The connections on which a call may leave, each as often as it takes one more.
    free: Vec<usize>,
    under_way: Vec<Departure>,
    /// The number of the next flight.
    next: u64,
}

/// A flight, and the call that it has under way.
#[derive(Clone, Copy, Debug)]
struct Departure {
    flight: u64,
    lane: usize,
    /// How many requests it carries: none while it is boarding.
    requests: usize,
    at: Instant,
}

/// How far a flight that must stay in one slot looks for company.
const LOOKED_THROUGH: usize = 256;
/// How long a flight takes to board or, where all is well, to land: past this nobody counts on it.
const MOMENT: Duration = Duration::from_millis(2);
/// Fewer requests than this are not shared between two flights.
const WORTH_SHARING: usize = 16;

impl<C: Carrier> Queue<C> {
    /// `lanes` are the connections, each as often as it may have a call under way.
    pub(crate) fn new(carrier: C, lanes: Vec<usize>, most: usize) -> Arc<Self> {
        let (asks, under_way) = (VecDeque::new(), Vec::new());
        let waiting = Waiting { asks, free: lanes, under_way, next: 0 };
        Arc::new(Self { carrier, most, waiting: Mutex::new(waiting) })
    }

    /// Gets an answer, in its turn. A caller that stops waiting before its request has left takes
    /// it back by that.
    pub(crate) async fn ask(self: &Arc<Self>, ask: Ask) -> Answer {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.asks.len() >= self.most {
                return Err(too_many(waiting.asks.len()));
            }
            waiting.asks.push_back((ask, answer));
            self.start_another(&mut waiting);
        }
        answered.await.unwrap_or_else(|_| Err(abandoned()))
    }

    /// The connections on which a call is under way for so long.
    pub(crate) fn overdue(&self, deadline: Duration) -> Vec<usize> {
        let waiting = self.waiting.lock();
        let late = waiting.under_way.iter().filter(|call| call.at.elapsed() >= deadline);
        let mut lanes: Vec<_> = late.map(|call| call.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// Sends another flight, if there is a connection for it and enough requests wait.
    fn start_another(self: &Arc<Self>, waiting: &mut Waiting) {
        // One that is boarding takes along who waits, and sends another for the rest. Unless its
        // runtime is kept and not driven any more: then it boards for ever.
        let boards_soon = |call: &Departure| call.is_boarding() && call.is_recent();
        let is_seen_to =
            !self.carrier.keeps_slots_apart() && waiting.under_way.iter().any(boards_soon);
        if is_seen_to || !self.is_worth_a_flight(waiting, None) {
            return;
        }
        let Some(lane) = waiting.free.pop() else { return };
        let flight = waiting.next;
        waiting.next += 1;
        waiting.under_way.push(Departure { flight, lane, requests: 0, at: Instant::now() });
        tokio::spawn(Flight { queue: Arc::clone(self), number: flight, lane, landed: false }.run());
    }

    /// Where calls may have any company, a few requests do better to wait for the end of another
    /// flight that has many and has just left: those that share a call cost Redis less than half of
    /// what they cost by themselves.
    fn is_worth_a_flight(&self, waiting: &Waiting, by: Option<u64>) -> bool {
        let is_full = |call: &Departure| {
            let too_few = 2 * waiting.asks.len() < call.requests;
            too_few && Some(call.flight) != by && call.is_recent()
        };
        let waits = !self.carrier.keeps_slots_apart() && waiting.under_way.iter().any(is_full);
        !waits && !waiting.asks.is_empty()
    }

    /// Takes along what waits, as far as it fits; `None` ends the flight.
    fn board(self: &Arc<Self>, flight: u64) -> Option<(Parcel, Vec<oneshot::Sender<Answer>>)> {
        let mut waiting = self.waiting.lock();
        if !self.is_worth_a_flight(&waiting, Some(flight)) {
            waiting.landed(flight);
            return None;
        }
        let (mut batch, mut callers) = (Batch::default(), Vec::new());
        let apart = self.carrier.keeps_slots_apart();
        let most = if apart { usize::MAX } else { waiting.fair_share(flight) };
        let mut slot = None;
        let mut place = 0;
        while place < waiting.asks.len().min(LOOKED_THROUGH.max(callers.len() + 1))
            && callers.len() < most
        {
            let Some((ask, caller)) = waiting.asks.get(place) else { break };
            if caller.is_closed() {
                waiting.asks.remove(place);
                continue;
            }
            if apart && *slot.get_or_insert(ask.slot()) != ask.slot() {
                place += 1;
                continue;
            }
            if !batch.has_room_for(ask) {
                break;
            }
            let Some((ask, caller)) = waiting.asks.remove(place) else { break };
            batch.add(ask);
            callers.push(caller);
        }
        if callers.is_empty() {
            waiting.landed(flight);
            return None;
        }
        waiting.left(flight, callers.len());
        self.start_another(&mut waiting);
        drop(waiting);
        Some((batch.seal(), callers))
    }
}

impl Departure {
    const fn is_boarding(&self) -> bool {
        self.requests == 0
    }

    fn is_recent(&self) -> bool {
        self.at.elapsed() < MOMENT
    }
}

impl Waiting {
    /// What one flight takes, so that it leaves something to those who could fly beside it: while
    /// Redis decides what one has brought, we see to the other's.
    fn fair_share(&self, flight: u64) -> usize {
        let boarding = |call: &&Departure| call.is_boarding() && call.flight != flight;
        let others = self.free.len() + self.under_way.iter().filter(boarding).count();
        match self.asks.len() {
            few @ ..WORTH_SHARING => few,
            many => many.div_ceil(others + 1),
        }
    }

    /// Takes note of a call that leaves.
    fn left(&mut self, flight: u64, requests: usize) {
        if let Some(call) = self.under_way.iter_mut().find(|call| call.flight == flight) {
            (call.requests, call.at) = (requests, Instant::now());
        }
    }

    /// Takes note of a flight that is over.
    fn landed(&mut self, flight: u64) {
        if let Some(place) = self.under_way.iter().position(|call| call.flight == flight) {
            let call = self.under_way.swap_remove(place);
            self.free.push(call.lane);
        }
    }
}

/// One call after the other, until nobody waits.
struct Flight<C: Carrier> {
    queue: Arc<Queue<C>>,
    number: u64,
    lane: usize,
    landed: bool,
}

impl<C: Carrier> Flight<C> {
    async fn run(mut self) {
        loop {
            // Who was just answered may ask again at once: let them come along.
            tokio::task::yield_now().await;
            let Some((parcel, callers)) = self.queue.board(self.number) else { break };
            let answers = self.queue.carrier.carry(self.lane, &parcel).await;
            self.queue.waiting.lock().left(self.number, 0);
            for (caller, answer) in callers.into_iter().zip(answers) {
                // Who does not wait any more gets nothing.
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
#[path = "queue_tests.rs"]
mod tests;
