//! The requests that wait to be sent, and the calls that are under way.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Charge;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::call_schedule::CallSchedule;
use super::in_flight_counters::{
    CLASSES, ClassMarks, DeferredCounters, InFlightCounters, class, classes,
};
use crate::batch::{RedisAnswer, RedisBatch, RedisRequest};

/// The callers that get the answers to identical requests, in order of arrival.
pub(super) type WaitingCallers = SmallVec<[oneshot::Sender<RedisAnswer>; 1]>;

/// The most identical requests that wait as one: a call has room for two such groups.
const MAX_IDENTICAL: usize = RedisBatch::MAX_REQUESTS / 2;
/// Fewer requests than this are not divided between two senders.
const WORTH_SHARING: usize = 16;

/// The state of a queue.
#[derive(Debug)]
pub(super) struct QueueBacklog {
    waiters: VecDeque<QueuedRequest>,
    /// How many callers wait.
    requests: usize,
    /// How many queued requests can be sent on any connection, as far as is known.
    ready: usize,
    /// For each connection, how many queued requests have a counter that it has in flight.
    held: Vec<usize>,
    /// For each class of counters, the number of the last queued request with any of them.
    latest: Box<[u64]>,
    /// The number of the last queued request.
    last: u64,
    pub(super) schedule: CallSchedule,
    /// `None` if there is only one connection, which keeps the order anyway.
    in_flight: Option<InFlightCounters>,
    /// Whether a counter is in flight in only one call, and not only on one connection.
    is_exclusive: bool,
}

/// A waiting request, together with all identical ones that came later.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    number: u64,
    pub(super) request: RedisRequest,
    pub(super) callers: WaitingCallers,
    /// The connection that has its counters in flight, if any: the request is sent there, or later.
    held_by: Option<usize>,
}

impl QueueBacklog {
    /// `lanes` are the connections, each listed as often as it may have a sender; a sender may have
    /// `depth` calls under way.
    pub(super) fn new(lanes: Vec<usize>, depth: usize) -> Self {
        let several = lanes.iter().any(|lane| Some(lane) != lanes.first());
        Self {
            waiters: VecDeque::new(),
            requests: 0,
            ready: 0,
            held: vec![0; lanes.iter().max().map_or(0, |lane| lane + 1)],
            latest: vec![0; CLASSES].into(),
            last: 0,
            schedule: CallSchedule::new(lanes, depth),
            in_flight: several.then(InFlightCounters::new),
            is_exclusive: false,
        }
    }

    pub(super) fn make_exclusive(&mut self) {
        self.in_flight.get_or_insert_with(InFlightCounters::new);
        self.is_exclusive = true;
    }

    /// How many callers wait.
    pub(super) const fn len(&self) -> usize {
        self.requests
    }

    /// Adds a caller to an identical request, unless a different request for the counter was queued
    /// since. Many callers with the same request are little more work than one.
    pub(super) fn join_identical(
        &mut self,
        charge: &Charge<'_>,
    ) -> Option<oneshot::Receiver<RedisAnswer>> {
        let number = self.latest[usize::from(class(charge.counter()))];
        let index = self.waiters.partition_point(|queued| queued.number < number);
        let queued = self.waiters.get_mut(index).filter(|queued| queued.number == number)?;
        if queued.callers.len() >= MAX_IDENTICAL || !queued.request.is_same_as(charge) {
            return None;
        }
        let (caller, answered) = oneshot::channel();
        queued.callers.push(caller);
        self.requests += 1;
        Some(answered)
    }

    /// Adds a request. If a connection has its counters in flight, the request is sent there, or
    /// anywhere once they are answered or overdue.
    pub(super) fn push(
        &mut self,
        request: RedisRequest,
        caller: oneshot::Sender<RedisAnswer>,
        deadline: Duration,
    ) {
        let mut held_by = self.blocking_lane(&request, None);
        if held_by.is_some() && self.release_overdue(deadline) {
            held_by = self.blocking_lane(&request, None);
        }
        match held_by {
            Some(lane) => self.held[lane] += 1,
            None => self.ready += 1,
        }
        self.requests += 1;
        self.last += 1;
        classes(&request).for_each(|class| self.latest[usize::from(class)] = self.last);
        let callers = WaitingCallers::from_iter([caller]);
        self.waiters.push_back(QueuedRequest { number: self.last, request, callers, held_by });
    }

    pub(super) fn get(&self, index: usize) -> Option<&QueuedRequest> {
        self.waiters.get(index)
    }

    /// Drops callers that no longer wait.
    pub(super) fn drop_closed_callers(&mut self, index: usize) {
        let Some(queued) = self.waiters.get_mut(index) else { return };
        let before = queued.callers.len();
        queued.callers.retain(|caller| !caller.is_closed());
        self.requests -= before - queued.callers.len();
    }

    pub(super) fn remove(&mut self, index: usize) -> Option<QueuedRequest> {
        let queued = self.waiters.remove(index)?;
        match queued.held_by {
            Some(lane) => self.held[lane] -= 1,
            None => self.ready -= 1,
        }
        self.requests -= queued.callers.len();
        Some(queued)
    }

    /// Whether a new sender is worthwhile: requests wait that no connection holds, and that should not
    /// wait for a call that is under way.
    pub(super) fn is_sender_worthwhile(&self, may_have_company: bool) -> bool {
        self.schedule.is_call_worthwhile(self.ready, None, may_have_company)
    }

    /// The same for another call of a sender.
    pub(super) fn is_call_worthwhile(&self, sender: u64, may_have_company: bool) -> bool {
        self.schedule.is_call_worthwhile(self.waiters.len(), Some(sender), may_have_company)
    }

    /// Has a sender gather requests again, if one has had its last call under way for long enough and
    /// requests wait that it can send. Returns its connection.
    pub(super) fn resume_sender(&mut self, may_have_company: bool) -> Option<usize> {
        let (ready, held) = (self.ready, &self.held);
        self.schedule.resume_sender(may_have_company, |lane| ready + held[lane])
    }

    /// The connection for which a request must wait, unless it is sent on that one.
    pub(super) fn blocking_lane(
        &self,
        request: &RedisRequest,
        leaves_on: Option<usize>,
    ) -> Option<usize> {
        let leaves_on = leaves_on.filter(|_| !self.is_exclusive);
        self.in_flight.as_ref()?.blocking_lane(request, leaves_on)
    }

    /// Releases the counters of calls that were sent this long ago, since their callers have stopped
    /// waiting. Returns whether there were any.
    pub(super) fn release_overdue(&mut self, deadline: Duration) -> bool {
        let Some(in_flight) = &mut self.in_flight else { return false };
        self.schedule.marks_older_than(deadline).map(|marks| in_flight.clear(marks)).count() > 0
    }

    /// How many requests one sender takes, leaving some for other senders: while Redis decides one
    /// call, we prepare the other.
    pub(super) fn fair_share(&self, sender: u64) -> usize {
        match self.waiters.len() {
            few @ ..WORTH_SHARING => few,
            many => many.div_ceil(self.schedule.other_senders(sender) + 1),
        }
    }

    /// Records that the request at this index waits for a connection, and holds back later requests
    /// for its counters.
    pub(super) fn defer(&mut self, index: usize, lane: usize, deferred: &mut DeferredCounters) {
        let Some(queued) = self.waiters.get_mut(index) else { return };
        deferred.add(&queued.request, lane);
        match queued.held_by.replace(lane) {
            Some(before) => self.held[before] -= 1,
            None => self.ready -= 1,
        }
        self.held[lane] += 1;
    }

    /// Records a call that is sent. Returns its number, and until when later requests wait for it, if
    /// other calls may follow it.
    pub(super) fn record_call(
        &mut self,
        (sender, lane): (u64, usize),
        batch: &RedisBatch,
        deadline: Duration,
    ) -> (u64, Option<Instant>) {
        let mut marks = ClassMarks::new();
        if let Some(in_flight) = &mut self.in_flight {
            batch.groups.iter().for_each(|group| in_flight.mark(&group.request, lane, &mut marks));
        }
        self.schedule.record_call(sender, batch.keys.len(), marks, deadline)
    }

    /// Records a call that was answered. If its sender has no other, the sender gathers requests again.
    pub(super) fn record_answer(&mut self, sender: u64, call: u64) {
        let mut marks = self.schedule.record_answer(sender, call);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.clear(&mut marks);
        }
    }

    /// Records that a sender has ended.
    pub(super) fn end_sender(&mut self, sender: u64) {
        let all = self.schedule.end_sender(sender);
        if let Some(in_flight) = &mut self.in_flight {
            all.into_iter().for_each(|mut marks| in_flight.clear(&mut marks));
        }
    }
}
