//! The queue in which requests of many callers gather, so that they share calls and connections.
//!
//! There is no task that waits for work. The first request starts a sender, whose call takes all
//! requests that have gathered by the time it is sent. Requests that arrive while the call is under
//! way leave with the next one. So a lone request does not wait, and the busier it gets, the more
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

/// What sends the calls of a queue.
pub(crate) trait RedisTransport: Send + Sync + 'static {
    /// Whether all keys of a call must be in one slot.
    fn needs_single_slot(&self) -> bool;

    /// Sends one call to Redis, and returns the answer to each of its requests.
    fn send(
        &self,
        lane: usize,
        batch_call: &BatchCall,
    ) -> impl Future<Output = Vec<RedisAnswer>> + Send;
}

/// Requests waiting for one of several connections.
#[derive(Debug)]
pub(crate) struct RedisQueue<C> {
    transport: C,
    /// How many requests may wait to be sent.
    most: usize,
    deadline: Arc<RedisDeadline>,
    backlog: Mutex<QueueBacklog>,
    /// For each connection, wakes its sender to send the requests that wait.
    sender_wakeups: Box<[Notify]>,
}

/// How many queued requests a sender looks through when some must stay behind.
const LOOKED_THROUGH: usize = 256;

impl<C: RedisTransport> RedisQueue<C> {
    /// `lanes` are the connections, each listed as often as it may have a sender; a sender may have
    /// `depth` calls under way.
    pub(crate) fn new(
        transport: C,
        lanes: Vec<usize>,
        depth: usize,
        most: usize,
        deadline: Arc<RedisDeadline>,
    ) -> Arc<Self> {
        let sender_wakeups =
            (0..=lanes.iter().copied().max().unwrap_or(0)).map(|_| Notify::new()).collect();
        let backlog = Mutex::new(QueueBacklog::new(lanes, depth));
        Arc::new(Self { transport, most, deadline, backlog, sender_wakeups })
    }

    /// Keeps a counter in flight in only one call at a time.
    pub(crate) fn exclusive(self: Arc<Self>) -> Arc<Self> {
        self.backlog.lock().make_exclusive();
        self
    }

    /// Queues a request. A caller that drops the reply before its request was sent withdraws it.
    ///
    /// Not an `async fn`: a future that holds the request would be moved several times, which takes
    /// longer than everything that is done here.
    pub(crate) fn enqueue(self: &Arc<Self>, request: RedisRequest) -> PendingReply {
        let mut backlog = self.backlog.lock();
        let (answer, answered) = oneshot::channel();
        if backlog.len() >= self.most {
            let _ = answer.send(Err(too_many(backlog.len())));
        } else {
            backlog.push(request, answer, self.deadline.get());
            self.start_call(&mut backlog);
        }
        PendingReply(answered)
    }

    /// Joins an identical request that is waiting, if there is one.
    pub(crate) fn join_identical(self: &Arc<Self>, charge: &Charge<'_>) -> Option<PendingReply> {
        let mut backlog = self.backlog.lock();
        if backlog.len() >= self.most {
            return None;
        }
        let answered = backlog.join_identical(charge)?;
        self.start_call(&mut backlog);
        Some(PendingReply(answered))
    }

    /// How long calls usually take.
    pub(crate) fn usual_round_trip(&self) -> Duration {
        self.backlog.lock().schedule.usual_round_trip()
    }

    /// The connections on which a call has been under way for this long, unless just reported.
    pub(crate) fn late_lanes(&self, time: Duration) -> Vec<usize> {
        self.backlog.lock().schedule.late_lanes(time)
    }

    /// Starts another call, if there is a connection for it and enough requests are backlog: with a new
    /// sender, or on a connection where it follows other calls.
    fn start_call(self: &Arc<Self>, backlog: &mut QueueBacklog) {
        let may_have_company = !self.transport.needs_single_slot();
        // A sender that is gathering takes the waiting requests, and starts another call for the
        // rest.
        if may_have_company && backlog.schedule.is_any_gathering() {
            return;
        }
        // Outside a runtime no task can start. A caller there fails at the timer that it needs.
        if backlog.is_sender_worthwhile(may_have_company)
            && let Ok(runtime) = Handle::try_current()
            && let Some((number, lane)) = backlog.schedule.start_sender()
        {
            runtime.spawn(CallSender::new(Arc::clone(self), number, lane).run());
        } else {
            self.wake_sender(backlog);
        }
    }

    /// Wakes a sender whose next call may follow its earlier ones, if that is of use.
    fn wake_sender(&self, backlog: &mut QueueBacklog) {
        if let Some(lane) = backlog.resume_sender(!self.transport.needs_single_slot()) {
            self.sender_wakeups[lane].notify_one();
        }
    }

    /// Takes the waiting requests, as far as they fit into a call; `None` if there are none.
    fn open_call(self: &Arc<Self>, sender: u64, lane: usize) -> Option<OpenCall> {
        let mut backlog = self.backlog.lock();
        let mut gathered = GatheredRequests::default();
        if backlog.is_call_worthwhile(sender, !self.transport.needs_single_slot()) {
            gathered = self.gather_requests(&mut backlog, sender, lane);
        }
        let GatheredRequests { batch, callers, .. } = gathered;
        if callers.is_empty() {
            if backlog.schedule.pause_sender(sender) {
                backlog.end_sender(sender);
                self.wake_sender(&mut backlog);
            }
            return None;
        }
        let (call, until) = backlog.record_call((sender, lane), &batch, self.deadline.get());
        self.start_call(&mut backlog);
        drop(backlog);
        Some(OpenCall { batch_call: batch.seal(), callers, call, until })
    }

    /// Records that a call was answered. Returns whether its sender gathers requests now.
    fn record_answer(self: &Arc<Self>, sender: u64, call: u64) -> bool {
        let mut backlog = self.backlog.lock();
        backlog.record_answer(sender, call);
        if !backlog.schedule.is_gathering(sender) {
            self.start_call(&mut backlog);
        }
        backlog.schedule.is_gathering(sender)
    }

    /// Starts another call, now that a sender's last one has been under way for long enough. Returns
    /// whether the sender gathers requests now.
    fn release_followers(self: &Arc<Self>, sender: u64) -> bool {
        let mut backlog = self.backlog.lock();
        self.start_call(&mut backlog);
        backlog.schedule.is_gathering(sender)
    }

    fn is_gathering(&self, sender: u64) -> bool {
        self.backlog.lock().schedule.is_gathering(sender)
    }

    fn gather_requests(
        &self,
        backlog: &mut QueueBacklog,
        sender: u64,
        lane: usize,
    ) -> GatheredRequests {
        let apart = self.transport.needs_single_slot();
        let most = if apart { usize::MAX } else { backlog.fair_share(sender) };
        backlog.release_overdue(self.deadline.get());
        let mut gathered = GatheredRequests::default();
        // A request that stays behind holds back later requests for the same counters.
        let (mut slot, mut index, mut deferred) = (None, 0, DeferredCounters::default());
        while index < LOOKED_THROUGH {
            backlog.drop_closed_callers(index);
            let Some(QueuedRequest { request, callers, .. }) = backlog.get(index) else {
                break;
            };
            if callers.is_empty() {
                backlog.remove(index);
            } else if apart && *slot.get_or_insert(request.slot()) != request.slot() {
                index += 1;
            } else if let Some(lane) = deferred
                .blocking_lane(request)
                .or_else(|| backlog.blocking_lane(request, Some(lane)))
            {
                backlog.defer(index, lane, &mut deferred);
                index += 1;
            } else if (gathered.share < most || gathered.batch.has_all_counters(request))
                && gathered.batch.has_room_for(request, callers.len())
            {
                let Some(queued) = backlog.remove(index) else { break };
                gathered.add(queued);
            } else {
                break;
            }
        }
        gathered
    }
}

/// The future answer to a queued request.
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

/// A call that is about to be sent.
struct OpenCall {
    batch_call: BatchCall,
    callers: Vec<oneshot::Sender<RedisAnswer>>,
    /// The call's number.
    call: u64,
    /// Until when later requests wait for this call rather than follow it; `None` if until its end.
    until: Option<Instant>,
}

/// The requests that share the next call.
#[derive(Default)]
struct GatheredRequests {
    batch: RedisBatch,
    callers: Vec<oneshot::Sender<RedisAnswer>>,
    /// How many of them added a counter to the call.
    share: usize,
}

impl GatheredRequests {
    fn add(&mut self, queued: QueuedRequest) {
        let before = self.batch.keys.len();
        self.batch.add(IdenticalRequests { request: queued.request, size: queued.callers.len() });
        self.callers.extend(queued.callers);
        self.share += usize::from(self.batch.keys.len() > before);
    }
}

fn too_many(waiting: usize) -> StoreError {
    StoreError::new(StoreErrorKind::Overloaded, format!("{waiting} requests are already waiting"))
}

fn abandoned() -> StoreError {
    StoreError::new(StoreErrorKind::Lost, "the runtime that sent the request has ended")
}

#[cfg(test)]
mod tests;
