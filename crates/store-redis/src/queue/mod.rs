//! Requests of many callers share calls, and calls share connections.
//!
//! There is no task that waits for work. The first request starts a flight, which takes along
//! everything that has gathered by the time it leaves; requests that arrive while it is under way
//! leave with the next call. So a lone request waits for nobody, and the busier it gets, the more
//! requests share a call.
//!
//! With a far Redis, waiting for a call and then for the next one would take twice the round trip.
//! So after a moment the next call follows on the same connection, which keeps them in order.

mod backlog;
mod call_schedule;
mod call_sender;
mod in_flight_counters;

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

use self::backlog::{QueueBacklog, QueuedRequest};
use self::call_sender::CallSender;
use self::in_flight_counters::DeferredCounters;
use crate::batch::{IdenticalRequests, RedisAnswer, RedisBatch, RedisRequest};
use crate::batch_call::BatchCall;
use crate::deadline::RedisDeadline;

/// Sends one call, and gives each of its requests an answer.
pub(crate) trait RedisTransport: Send + Sync + 'static {
    /// Whether all keys of a call must be in one slot.
    fn needs_single_slot(&self) -> bool;

    /// Carries requests to Redis and back.
    fn send(
        &self,
        lane: usize,
        parcel: &BatchCall,
    ) -> impl Future<Output = Vec<RedisAnswer>> + Send;
}

/// Requests waiting for one of several connections.
#[derive(Debug)]
pub(crate) struct RedisQueue<C> {
    transport: C,
    /// How many requests may wait for a flight.
    most: usize,
    deadline: Arc<RedisDeadline>,
    backlog: Mutex<QueueBacklog>,
    /// For each connection, what tells its flight to take along who waits.
    sender_wakeups: Box<[Notify]>,
}

/// How far a flight looks for company when some requests must stay behind.
const LOOKED_THROUGH: usize = 256;

impl<C: RedisTransport> RedisQueue<C> {
    /// `lanes` are the connections, each listed as often as it may have a flight; a flight may have
    /// `depth` calls under way.
    pub(crate) fn new(
        carrier: C,
        lanes: Vec<usize>,
        depth: usize,
        most: usize,
        deadline: Arc<RedisDeadline>,
    ) -> Arc<Self> {
        let bells = (0..=lanes.iter().copied().max().unwrap_or(0)).map(|_| Notify::new()).collect();
        let waiting = Mutex::new(QueueBacklog::new(lanes, depth));
        Arc::new(Self {
            transport: carrier,
            most,
            deadline,
            backlog: waiting,
            sender_wakeups: bells,
        })
    }

    /// Asks, and gets an answer in turn. A caller that stops waiting before its request has left
    /// thereby withdraws it.
    ///
    /// Not an `async fn`: a future with a request in it would be moved from place to place, which
    /// takes longer than everything that is done here.
    pub(crate) fn enqueue(self: &Arc<Self>, ask: RedisRequest) -> PendingReply {
        let mut waiting = self.backlog.lock();
        let (answer, answered) = oneshot::channel();
        if waiting.len() >= self.most {
            let _ = answer.send(Err(too_many(waiting.len())));
        } else {
            waiting.push(ask, answer, self.deadline.get());
            self.start_call(&mut waiting);
        }
        PendingReply(answered)
    }

    /// Joins a waiting request that asks for the same, if there is one.
    pub(crate) fn join_identical(self: &Arc<Self>, charge: &Charge<'_>) -> Option<PendingReply> {
        let mut waiting = self.backlog.lock();
        if waiting.len() >= self.most {
            return None;
        }
        let answered = waiting.join_identical(charge)?;
        self.start_call(&mut waiting);
        Some(PendingReply(answered))
    }

    /// How long calls usually take.
    pub(crate) fn usual_round_trip(&self) -> Duration {
        self.backlog.lock().schedule.usual_round_trip()
    }

    /// The connections on which a call has been under way for this long, if that is news.
    pub(crate) fn late_lanes(&self, time: Duration) -> Vec<usize> {
        self.backlog.lock().schedule.late_lanes(time)
    }

    /// Has another call leave, if there is a connection for it and enough requests are waiting: the
    /// first one on its connection, or one that follows others there.
    fn start_call(self: &Arc<Self>, waiting: &mut QueueBacklog) {
        let may_have_company = !self.transport.needs_single_slot();
        // A flight that is boarding takes along everyone who waits, and starts another for the
        // rest.
        if may_have_company && waiting.schedule.is_any_gathering() {
            return;
        }
        // Nothing begins outside a runtime. A caller there learns so from the timer it needs.
        if waiting.is_sender_worthwhile(may_have_company)
            && let Ok(runtime) = Handle::try_current()
            && let Some((number, lane)) = waiting.schedule.start_sender()
        {
            runtime.spawn(CallSender::new(Arc::clone(self), number, lane).run());
        } else {
            self.wake_sender(waiting);
        }
    }

    /// Has a call follow others on their connection, if that is of use.
    fn wake_sender(&self, waiting: &mut QueueBacklog) {
        if let Some(lane) = waiting.resume_sender(!self.transport.needs_single_slot()) {
            self.sender_wakeups[lane].notify_one();
        }
    }

    /// Takes along what is waiting, as far as it fits; `None` if there is nobody.
    fn open_call(self: &Arc<Self>, flight: u64, lane: usize) -> Option<OpenCall> {
        let mut waiting = self.backlog.lock();
        let mut boarded = GatheredRequests::default();
        if waiting.is_call_worthwhile(flight, !self.transport.needs_single_slot()) {
            boarded = self.gather_requests(&mut waiting, flight, lane);
        }
        let GatheredRequests { batch, callers, .. } = boarded;
        if callers.is_empty() {
            if waiting.schedule.pause_sender(flight) {
                waiting.end_sender(flight);
                self.wake_sender(&mut waiting);
            }
            return None;
        }
        let (call, until) = waiting.record_call((flight, lane), &batch, self.deadline.get());
        self.start_call(&mut waiting);
        drop(waiting);
        Some(OpenCall { batch_call: batch.seal(), callers, call, until })
    }

    /// Records that a call was answered. Returns whether its flight boards now.
    fn record_answer(self: &Arc<Self>, flight: u64, call: u64) -> bool {
        let mut waiting = self.backlog.lock();
        waiting.record_answer(flight, call);
        if !waiting.schedule.is_gathering(flight) {
            self.start_call(&mut waiting);
        }
        waiting.schedule.is_gathering(flight)
    }

    /// Has another call leave, now that a flight's last one has been under way for long enough.
    /// Returns whether the flight boards.
    fn release_followers(self: &Arc<Self>, flight: u64) -> bool {
        let mut waiting = self.backlog.lock();
        self.start_call(&mut waiting);
        waiting.schedule.is_gathering(flight)
    }

    fn is_gathering(&self, flight: u64) -> bool {
        self.backlog.lock().schedule.is_gathering(flight)
    }

    fn gather_requests(
        &self,
        waiting: &mut QueueBacklog,
        flight: u64,
        lane: usize,
    ) -> GatheredRequests {
        let apart = self.transport.needs_single_slot();
        let most = if apart { usize::MAX } else { waiting.fair_share(flight) };
        waiting.release_overdue(self.deadline.get());
        let mut boarded = GatheredRequests::default();
        // A request that stays behind keeps back later requests for the same thing.
        let (mut slot, mut place, mut kept_back) = (None, 0, DeferredCounters::default());
        while place < LOOKED_THROUGH {
            waiting.drop_closed_callers(place);
            let Some(QueuedRequest { request: ask, callers, .. }) = waiting.get(place) else {
                break;
            };
            if callers.is_empty() {
                waiting.remove(place);
            } else if apart && *slot.get_or_insert(ask.slot()) != ask.slot() {
                place += 1;
            } else if let Some(lane) =
                kept_back.blocking_lane(ask).or_else(|| waiting.blocking_lane(ask, Some(lane)))
            {
                waiting.defer(place, lane, &mut kept_back);
                place += 1;
            } else if (boarded.share < most || boarded.batch.has_all_counters(ask))
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
pub(crate) struct PendingReply(oneshot::Receiver<RedisAnswer>);

impl Future for PendingReply {
    type Output = RedisAnswer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<RedisAnswer> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(abandoned())))
    }
}

/// A call that leaves.
struct OpenCall {
    batch_call: BatchCall,
    callers: Vec<oneshot::Sender<RedisAnswer>>,
    /// Its number.
    call: u64,
    /// Until when others wait for it, rather than follow it; for good if nothing is said.
    until: Option<Instant>,
}

/// The requests that come along.
#[derive(Default)]
struct GatheredRequests {
    batch: RedisBatch,
    callers: Vec<oneshot::Sender<RedisAnswer>>,
    /// How many of them brought a counter that nobody else had.
    share: usize,
}

impl GatheredRequests {
    fn add(&mut self, waiter: QueuedRequest) {
        let before = self.batch.keys.len();
        self.batch.add(IdenticalRequests { request: waiter.request, size: waiter.callers.len() });
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
