//! Which requests wait for a flight, and which flights are under way.

use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::Charge;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::aloft::{Aloft, CLASSES, Marks, class, classes};
use crate::batch::{Answer, Ask, Batch, Crowd};

/// The callers that get the answers to identical requests, in order of arrival.
pub(super) type Callers = SmallVec<[oneshot::Sender<Answer>; 1]>;

/// More than this do not wait as one: a call has room for two such crowds.
const LARGEST_CROWD: usize = Batch::MAX_REQUESTS / 2;

/// How long a flight takes to board or, if all is well, to land: past this nobody counts on it.
pub(super) const MOMENT: Duration = Duration::from_millis(2);
/// Fewer requests than this are not shared between two flights.
const WORTH_SHARING: usize = 16;

#[derive(Debug)]
pub(super) struct Waiting {
    waiters: VecDeque<Waiter>,
    /// How many requests there are.
    requests: usize,
    /// How many waiters are not known to be held by a flight.
    ready: usize,
    /// For each class of counters, the number of the last waiter to ask about any of them.
    latest: Box<[u64]>,
    /// The number of the last waiter.
    last: u64,
    /// The connections on which a call may leave, each listed as often as it can take one more.
    free: Vec<usize>,
    pub(super) under_way: Vec<Departure>,
    /// `None` if there is one connection, which keeps the order by itself.
    aloft: Option<Aloft>,
    /// The number of the next flight.
    next: u64,
    /// How long the last call took.
    took: Duration,
}

/// A waiting request, together with all identical ones that came later.
#[derive(Debug)]
pub(super) struct Waiter {
    number: u64,
    pub(super) ask: Ask,
    pub(super) callers: Callers,
    /// Whether it waits for the end of a flight that has its counters.
    is_held: bool,
}

/// A flight, and the call that it has under way.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) flight: u64,
    pub(super) lane: usize,
    /// How many counters it has: none while it is boarding.
    pub(super) counters: usize,
    pub(super) at: Instant,
    marks: Marks,
}

impl Waiting {
    /// `lanes` are the connections, each listed as often as it may have a call under way.
    pub(super) fn new(lanes: Vec<usize>) -> Self {
        let several = lanes.iter().any(|lane| Some(lane) != lanes.first());
        Self {
            waiters: VecDeque::new(),
            requests: 0,
            ready: 0,
            latest: vec![0; CLASSES].into(),
            last: 0,
            free: lanes,
            under_way: Vec::new(),
            aloft: several.then(Aloft::new),
            next: 0,
            took: Duration::ZERO,
        }
    }

    /// How many requests wait.
    pub(super) const fn len(&self) -> usize {
        self.requests
    }

    /// Adds a request to an identical one, if nobody has asked for anything else of its counter
    /// since. Many callers that want the same thing are little more work than one of them.
    pub(super) fn join(&mut self, charge: &Charge<'_>) -> Option<oneshot::Receiver<Answer>> {
        let number = self.latest[usize::from(class(charge.counter()))];
        let place = self.waiters.partition_point(|waiter| waiter.number < number);
        let waiter = self.waiters.get_mut(place).filter(|waiter| waiter.number == number)?;
        if waiter.callers.len() >= LARGEST_CROWD || !waiter.ask.is_like(charge) {
            return None;
        }
        let (caller, answered) = oneshot::channel();
        waiter.callers.push(caller);
        self.requests += 1;
        Some(answered)
    }

    /// Adds a request. If it is held, it leaves with the flight that holds it, once that is back;
    /// or, should that not be back in time, with any other.
    pub(super) fn push(&mut self, ask: Ask, caller: oneshot::Sender<Answer>, deadline: Duration) {
        let mut is_held = self.holds(&ask);
        if is_held && self.give_up(deadline) {
            is_held = self.holds(&ask);
        }
        self.ready += usize::from(!is_held);
        self.requests += 1;
        self.last += 1;
        classes(&ask).for_each(|class| self.latest[usize::from(class)] = self.last);
        let callers = Callers::from_iter([caller]);
        self.waiters.push_back(Waiter { number: self.last, ask, callers, is_held });
    }

    pub(super) fn get(&self, place: usize) -> Option<&Waiter> {
        self.waiters.get(place)
    }

    /// A caller that no longer waits has not asked.
    pub(super) fn forget_who_left(&mut self, place: usize) {
        let Some(waiter) = self.waiters.get_mut(place) else { return };
        let before = waiter.callers.len();
        waiter.callers.retain(|caller| !caller.is_closed());
        self.requests -= before - waiter.callers.len();
    }

    pub(super) fn remove(&mut self, place: usize) -> Option<Waiter> {
        let waiter = self.waiters.remove(place)?;
        self.ready -= usize::from(!waiter.is_held);
        self.requests -= waiter.callers.len();
        Some(waiter)
    }

    /// Whether somebody is waiting whom no flight holds, and who is better off not waiting for one
    /// that is under way.
    pub(super) fn is_worth_a_flight(&self, may_have_company: bool) -> bool {
        self.is_worth(self.ready, None, may_have_company)
    }

    /// The same for a flight that is back, and would take along the requests it held.
    pub(super) fn is_worth_another(&self, flight: u64, may_have_company: bool) -> bool {
        self.is_worth(self.waiters.len(), Some(flight), may_have_company)
    }

    /// Where calls may have any company, a few requests wait for the end of a flight that has many
    /// counters and has just left: requests that share a call cost Redis less than half of what
    /// they cost alone. Unless calls take so long that the wait would be felt.
    fn is_worth(&self, requests: usize, by: Option<u64>, may_have_company: bool) -> bool {
        let is_full = |call: &Departure| {
            2 * requests < call.counters && Some(call.flight) != by && call.is_recent()
        };
        let may_wait = may_have_company && self.took < MOMENT / 2;
        let waits = may_wait && self.under_way.iter().any(is_full);
        requests > 0 && !waits
    }

    /// Whether a request must wait for the end of a flight that has its counters.
    pub(super) fn holds(&self, ask: &Ask) -> bool {
        self.aloft.as_ref().is_some_and(|aloft| aloft.holds(ask))
    }

    /// Nobody waits for a flight that left this long ago; returns whether there was one.
    pub(super) fn give_up(&mut self, deadline: Duration) -> bool {
        let Some(aloft) = &mut self.aloft else { return false };
        let now = Instant::now();
        let late = |call: &&mut Departure| !call.marks.is_empty() && now - call.at >= deadline;
        let late = self.under_way.iter_mut().filter(late);
        late.map(|call| aloft.clear(&mut call.marks)).count() > 0
    }

    /// How much one flight takes, leaving something for flights that could go alongside: while
    /// Redis decides what one has brought, we take care of the other's.
    pub(super) fn fair_share(&self, flight: u64) -> usize {
        let boarding = |call: &&Departure| call.is_boarding() && call.flight != flight;
        let others = self.free.len() + self.under_way.iter().filter(boarding).count();
        match self.waiters.len() {
            few @ ..WORTH_SHARING => few,
            many => many.div_ceil(others + 1),
        }
    }

    /// Records a flight that begins to board, if there is a connection for it.
    pub(super) fn begin(&mut self) -> Option<(u64, usize)> {
        let (lane, flight) = (self.free.pop()?, self.next);
        self.next += 1;
        let (at, marks) = (Instant::now(), Marks::new());
        self.under_way.push(Departure { flight, lane, counters: 0, at, marks });
        Some((flight, lane))
    }

    /// Records that the request in this place is held, and keeps others away from what it is about
    /// until these marks are cleared.
    pub(super) fn keep_back(&mut self, place: usize, marks: &mut Marks) {
        if let Some((aloft, waiter)) = self.aloft.as_mut().zip(self.waiters.get_mut(place)) {
            aloft.mark(&waiter.ask, marks);
            self.ready -= usize::from(!waiter.is_held);
            waiter.is_held = true;
        }
    }

    pub(super) fn clear(&mut self, marks: &mut Marks) {
        if let Some(aloft) = &mut self.aloft {
            aloft.clear(marks);
        }
    }

    /// Records a call that leaves, with this many counters.
    pub(super) fn left(&mut self, flight: u64, crowds: &[Crowd], counters: usize) {
        let Some(call) = self.under_way.iter_mut().find(|call| call.flight == flight) else {
            return;
        };
        (call.counters, call.at) = (counters, Instant::now());
        if let Some(aloft) = &mut self.aloft {
            crowds.iter().for_each(|crowd| aloft.mark(&crowd.ask, &mut call.marks));
        }
    }

    /// Records a call that was answered: its flight boards again.
    pub(super) fn answered(&mut self, flight: u64) {
        let Some(call) = self.under_way.iter_mut().find(|call| call.flight == flight) else {
            return;
        };
        let now = Instant::now();
        self.took = now - call.at;
        (call.counters, call.at) = (0, now);
        if let Some(aloft) = &mut self.aloft {
            aloft.clear(&mut call.marks);
        }
    }

    /// Records a flight that is over.
    pub(super) fn landed(&mut self, flight: u64) {
        if let Some(place) = self.under_way.iter().position(|call| call.flight == flight) {
            let mut call = self.under_way.swap_remove(place);
            self.clear(&mut call.marks);
            self.free.push(call.lane);
        }
    }
}

impl Departure {
    pub(super) const fn is_boarding(&self) -> bool {
        self.counters == 0
    }

    pub(super) fn is_recent(&self) -> bool {
        self.at.elapsed() < MOMENT
    }
}
