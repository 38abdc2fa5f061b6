//! Which requests wait for a flight, and which flights are under way.

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

/// More than this do not wait as one: a call has room for two such crowds.
const MAX_IDENTICAL: usize = RedisBatch::MAX_REQUESTS / 2;
/// Fewer requests than this are not shared between two flights.
const WORTH_SHARING: usize = 16;

#[derive(Debug)]
pub(super) struct QueueBacklog {
    waiters: VecDeque<QueuedRequest>,
    /// How many requests there are.
    requests: usize,
    /// How many waiters may leave on any connection, as far as is known.
    ready: usize,
    /// For each connection, how many waiters ask about what it has under way.
    held: Vec<usize>,
    /// For each class of counters, the number of the last waiter to ask about any of them.
    latest: Box<[u64]>,
    /// The number of the last waiter.
    last: u64,
    pub(super) schedule: CallSchedule,
    /// `None` if there is one connection, which keeps the order by itself.
    in_flight: Option<InFlightCounters>,
}

/// A waiting request, together with all identical ones that came later.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    number: u64,
    pub(super) request: RedisRequest,
    pub(super) callers: WaitingCallers,
    /// The connection that has its counters, if one does: it leaves with that one, or later.
    held_by: Option<usize>,
}

impl QueueBacklog {
    /// `lanes` are the connections, each listed as often as it may have a flight; a flight may have
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
        }
    }

    /// How many requests wait.
    pub(super) const fn len(&self) -> usize {
        self.requests
    }

    /// Adds a request to an identical one, if nobody has asked for anything else of its counter
    /// since. Many callers that want the same thing are little more work than one of them.
    pub(super) fn join_identical(
        &mut self,
        charge: &Charge<'_>,
    ) -> Option<oneshot::Receiver<RedisAnswer>> {
        let number = self.latest[usize::from(class(charge.counter()))];
        let place = self.waiters.partition_point(|waiter| waiter.number < number);
        let waiter = self.waiters.get_mut(place).filter(|waiter| waiter.number == number)?;
        if waiter.callers.len() >= MAX_IDENTICAL || !waiter.request.is_same_as(charge) {
            return None;
        }
        let (caller, answered) = oneshot::channel();
        waiter.callers.push(caller);
        self.requests += 1;
        Some(answered)
    }

    /// Adds a request. If a connection has its counters, it leaves there, or once they are back; or,
    /// should that not be in time, anywhere.
    pub(super) fn push(
        &mut self,
        ask: RedisRequest,
        caller: oneshot::Sender<RedisAnswer>,
        deadline: Duration,
    ) {
        let mut held_by = self.blocking_lane(&ask, None);
        if held_by.is_some() && self.release_overdue(deadline) {
            held_by = self.blocking_lane(&ask, None);
        }
        match held_by {
            Some(lane) => self.held[lane] += 1,
            None => self.ready += 1,
        }
        self.requests += 1;
        self.last += 1;
        classes(&ask).for_each(|class| self.latest[usize::from(class)] = self.last);
        let callers = WaitingCallers::from_iter([caller]);
        self.waiters.push_back(QueuedRequest { number: self.last, request: ask, callers, held_by });
    }

    pub(super) fn get(&self, place: usize) -> Option<&QueuedRequest> {
        self.waiters.get(place)
    }

    /// A caller that no longer waits has not asked.
    pub(super) fn drop_closed_callers(&mut self, place: usize) {
        let Some(waiter) = self.waiters.get_mut(place) else { return };
        let before = waiter.callers.len();
        waiter.callers.retain(|caller| !caller.is_closed());
        self.requests -= before - waiter.callers.len();
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<QueuedRequest> {
        let waiter = self.waiters.remove(place)?;
        match waiter.held_by {
            Some(lane) => self.held[lane] -= 1,
            None => self.ready -= 1,
        }
        self.requests -= waiter.callers.len();
        Some(waiter)
    }

    /// Whether somebody is waiting whom no connection holds, and who is better off not waiting for a
    /// flight that is under way.
    pub(super) fn is_sender_worthwhile(&self, may_have_company: bool) -> bool {
        self.schedule.is_call_worthwhile(self.ready, None, may_have_company)
    }

    /// The same for a flight that is to take along what it can.
    pub(super) fn is_call_worthwhile(&self, flight: u64, may_have_company: bool) -> bool {
        self.schedule.is_call_worthwhile(self.waiters.len(), Some(flight), may_have_company)
    }

    /// Has a flight board once more whose calls have been under way for so long that nobody should
    /// wait for them, if there is one of use to somebody; returns its connection.
    pub(super) fn resume_sender(&mut self, may_have_company: bool) -> Option<usize> {
        let (ready, held) = (self.ready, &self.held);
        self.schedule.resume_sender(may_have_company, |lane| ready + held[lane])
    }

    /// The connection for which a request must wait, unless it leaves on that one.
    pub(super) fn blocking_lane(
        &self,
        ask: &RedisRequest,
        leaves_on: Option<usize>,
    ) -> Option<usize> {
        self.in_flight.as_ref()?.blocking_lane(ask, leaves_on)
    }

    /// Nobody waits for a call that left this long ago; returns whether there was one.
    pub(super) fn release_overdue(&mut self, deadline: Duration) -> bool {
        let Some(aloft) = &mut self.in_flight else { return false };
        self.schedule.marks_older_than(deadline).map(|marks| aloft.clear(marks)).count() > 0
    }

    /// How much one flight takes, leaving something for flights that could go alongside: while
    /// Redis decides what one has brought, we take care of the other's.
    pub(super) fn fair_share(&self, flight: u64) -> usize {
        match self.waiters.len() {
            few @ ..WORTH_SHARING => few,
            many => many.div_ceil(self.schedule.other_senders(flight) + 1),
        }
    }

    /// Records that the request in this place waits for a connection, and keeps back whoever asks
    /// about the same later.
    pub(super) fn defer(&mut self, place: usize, lane: usize, kept_back: &mut DeferredCounters) {
        let Some(waiter) = self.waiters.get_mut(place) else { return };
        kept_back.add(&waiter.request, lane);
        match waiter.held_by.replace(lane) {
            Some(before) => self.held[before] -= 1,
            None => self.ready -= 1,
        }
        self.held[lane] += 1;
    }

    /// Records a call that leaves; returns its number, and until when those who come later wait for
    /// it, if others may follow.
    pub(super) fn record_call(
        &mut self,
        (flight, lane): (u64, usize),
        batch: &RedisBatch,
        deadline: Duration,
    ) -> (u64, Option<Instant>) {
        let mut marks = ClassMarks::new();
        if let Some(aloft) = &mut self.in_flight {
            batch.groups.iter().for_each(|crowd| aloft.mark(&crowd.request, lane, &mut marks));
        }
        self.schedule.record_call(flight, batch.keys.len(), marks, deadline)
    }

    /// Records a call that was answered. If its flight has none left, it boards again.
    pub(super) fn record_answer(&mut self, flight: u64, call: u64) {
        let mut marks = self.schedule.record_answer(flight, call);
        if let Some(aloft) = &mut self.in_flight {
            aloft.clear(&mut marks);
        }
    }

    /// Records a flight that is over.
    pub(super) fn end_sender(&mut self, flight: u64) {
        let all = self.schedule.end_sender(flight);
        if let Some(aloft) = &mut self.in_flight {
            all.into_iter().for_each(|mut marks| aloft.clear(&mut marks));
        }
    }
}
