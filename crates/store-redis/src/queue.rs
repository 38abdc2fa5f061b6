//! Requests of many callers share calls, and calls share connections.
//!
//! There is no timer and no task that waits for work. Whoever asks first starts a flight, which
//! takes along what has gathered until it leaves; what comes while it is under way leaves with the
//! next one. So a lone request waits for nobody, and the busier it gets, the more share a call.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_store::{StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use crate::batch::{Answer, Ask, Batch};
use crate::parcel::Parcel;

/// Sends one call, and gives each of its requests an answer.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Whether all keys of a call must be in one slot.
    fn keeps_slots_apart(&self) -> bool;

    /// Carries requests to Redis and back.
    fn carry(&self, lane: usize, parcel: &Parcel) -> impl Future<Output = Vec<Answer>> + Send;
}

/// What waits for one of the connections.
#[derive(Debug)]
pub(crate) struct Queue<C> {
    carrier: C,
    lane: usize,
    limits: Limits,
    waiting: Mutex<Waiting>,
}

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests that wait for a flight.
    pub(crate) waiting: usize,
    /// Calls without an answer yet.
    pub(crate) flights: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    asks: VecDeque<(Ask, oneshot::Sender<Answer>)>,
    flights: usize,
}

/// How far a flight that must stay in one slot looks for company.
const LOOKED_THROUGH: usize = 256;

impl<C: Carrier> Queue<C> {
    pub(crate) fn new(carrier: C, lane: usize, limits: Limits) -> Arc<Self> {
        Arc::new(Self { carrier, lane, limits, waiting: Mutex::default() })
    }

    /// Gets an answer, in its turn. A caller that stops waiting before its request has left takes
    /// it back by that.
    pub(crate) async fn ask(self: &Arc<Self>, ask: Ask) -> Answer {
        let (answer, answered) = oneshot::channel();
        let starts = {
            let mut waiting = self.waiting.lock();
            if waiting.asks.len() >= self.limits.waiting {
                return Err(too_many(waiting.asks.len()));
            }
            waiting.asks.push_back((ask, answer));
            let starts = waiting.flights < self.limits.flights;
            waiting.flights += usize::from(starts);
            starts
        };
        if starts {
            tokio::spawn(Flight { queue: self.clone(), landed: false }.run());
        }
        answered.await.unwrap_or_else(|_| Err(abandoned()))
    }

    /// Takes along what waits, as far as it fits; `None` ends the flight.
    fn board(&self) -> Option<(Parcel, Vec<oneshot::Sender<Answer>>)> {
        let mut waiting = self.waiting.lock();
        let (mut batch, mut callers) = (Batch::default(), Vec::new());
        let mut slot = None;
        let mut place = 0;
        while place < waiting.asks.len().min(LOOKED_THROUGH.max(callers.len() + 1)) {
            let Some((ask, caller)) = waiting.asks.get(place) else { break };
            if caller.is_closed() {
                waiting.asks.remove(place);
                continue;
            }
            if self.carrier.keeps_slots_apart() && *slot.get_or_insert(ask.slot()) != ask.slot() {
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
            waiting.flights -= 1;
            return None;
        }
        drop(waiting);
        Some((batch.seal(), callers))
    }
}

/// One call after the other, until nobody waits.
struct Flight<C: Carrier> {
    queue: Arc<Queue<C>>,
    landed: bool,
}

impl<C: Carrier> Flight<C> {
    async fn run(mut self) {
        loop {
            // Who was just answered may ask again at once: let them come along.
            tokio::task::yield_now().await;
            let Some((parcel, callers)) = self.queue.board() else { break };
            let answers = self.queue.carrier.carry(self.queue.lane, &parcel).await;
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
            self.queue.waiting.lock().flights -= 1;
        }
    }
}

fn too_many(waiting: usize) -> StoreError {
    StoreError::new(StoreErrorKind::Overloaded, format!("{waiting} requests wait already"))
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that carried the request has ended")
}
