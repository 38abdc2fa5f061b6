//! Who waits for a flight, and which are under way.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::aloft::{Aloft, Marks};
use crate::batch::{Answer, Ask};

/// How long a flight takes to board or, where all is well, to land: past this nobody counts on it.
pub(super) const MOMENT: Duration = Duration::from_millis(2);
/// Fewer requests than this are not shared between two flights.
const WORTH_SHARING: usize = 16;

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asks: VecDeque<(Ask, oneshot::Sender<Answer>)>,
    /// The connections on which a call may leave, each as often as it takes one more.
    free: Vec<usize>,
    pub(super) under_way: Vec<Departure>,
    /// `None` where there is one connection, which keeps the order by itself.
    aloft: Option<Aloft>,
    /// The number of the next flight.
    next: u64,
}

/// A flight, and the call that it has under way.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) flight: u64,
    pub(super) lane: usize,
    /// How many requests it carries: none while it is boarding.
    pub(super) requests: usize,
    pub(super) at: Instant,
    marks: Marks,
}

impl Waiting {
    /// `lanes` are the connections, each as often as it may have a call under way.
    pub(super) fn new(lanes: Vec<usize>) -> Self {
        let several = lanes.iter().any(|lane| Some(lane) != lanes.first());
        Self {
            asks: VecDeque::new(),
            free: lanes,
            under_way: Vec::new(),
            aloft: several.then(Aloft::new),
            next: 0,
        }
    }

    /// Whether a request must wait for the end of a flight that has its counters.
    pub(super) fn holds(&self, ask: &Ask) -> bool {
        self.aloft.as_ref().is_some_and(|aloft| aloft.holds(ask))
    }

    /// Nobody waits for what left so long ago; says whether there was such a flight.
    pub(super) fn give_up(&mut self, deadline: Duration) -> bool {
        let Some(aloft) = &mut self.aloft else { return false };
        let now = Instant::now();
        let late = |call: &&mut Departure| !call.marks.is_empty() && now - call.at >= deadline;
        let late = self.under_way.iter_mut().filter(late);
        late.map(|call| aloft.clear(&mut call.marks)).count() > 0
    }

    /// What one flight takes, so that it leaves something to those who could fly beside it: while
    /// Redis decides what one has brought, we see to the other's.
    pub(super) fn fair_share(&self, flight: u64) -> usize {
        let boarding = |call: &&Departure| call.is_boarding() && call.flight != flight;
        let others = self.free.len() + self.under_way.iter().filter(boarding).count();
        match self.asks.len() {
            few @ ..WORTH_SHARING => few,
            many => many.div_ceil(others + 1),
        }
    }

    /// Takes note of a flight that begins to board, if there is a connection for it.
    pub(super) fn begin(&mut self) -> Option<(u64, usize)> {
        let (lane, flight) = (self.free.pop()?, self.next);
        self.next += 1;
        let (at, marks) = (Instant::now(), Marks::new());
        self.under_way.push(Departure { flight, lane, requests: 0, at, marks });
        Some((flight, lane))
    }

    /// Keeps others from what the request in this place is about, until these marks are cleared.
    pub(super) fn keep_back(&mut self, place: usize, marks: &mut Marks) {
        if let Some((aloft, (ask, _))) = self.aloft.as_mut().zip(self.asks.get(place)) {
            aloft.mark(ask, marks);
        }
    }

    pub(super) fn clear(&mut self, marks: &mut Marks) {
        if let Some(aloft) = &mut self.aloft {
            aloft.clear(marks);
        }
    }

    /// Takes note of a call that leaves.
    pub(super) fn left(&mut self, flight: u64, asks: &[Ask]) {
        let Some(call) = self.under_way.iter_mut().find(|call| call.flight == flight) else {
            return;
        };
        (call.requests, call.at) = (asks.len(), Instant::now());
        if let Some(aloft) = &mut self.aloft {
            asks.iter().for_each(|ask| aloft.mark(ask, &mut call.marks));
        }
    }

    /// Takes note of a call that is answered: its flight boards again.
    pub(super) fn answered(&mut self, flight: u64) {
        let Some(call) = self.under_way.iter_mut().find(|call| call.flight == flight) else {
            return;
        };
        (call.requests, call.at) = (0, Instant::now());
        if let Some(aloft) = &mut self.aloft {
            aloft.clear(&mut call.marks);
        }
    }

    /// Takes note of a flight that is over.
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
        self.requests == 0
    }

    pub(super) fn is_recent(&self) -> bool {
        self.at.elapsed() < MOMENT
    }
}
