//! Which flights are under way, with which calls, and when another call may follow.

use std::time::Duration;

use tokio::time::Instant;

use super::aloft::Marks;

/// How long a flight takes to board or, if all is well, to land: past this nobody counts on it.
pub(super) const MOMENT: Duration = Duration::from_millis(2);
/// Where calls take this long, waiting for one is felt.
pub(super) const FAR: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct Traffic {
    /// The connections without a flight, each listed as often as it can have one more.
    free: Vec<usize>,
    /// How many calls a flight may have under way.
    depth: usize,
    flights: Vec<Flight>,
    calls: Vec<Call>,
    /// The number of the next flight or call.
    next: u64,
    /// How long the last call took.
    took: Duration,
    /// How long calls usually take.
    usual: Duration,
    /// When somebody last missed a deadline because of a call.
    missed_at: Option<Instant>,
}

/// The calls on a connection that follow one another.
#[derive(Debug)]
struct Flight {
    number: u64,
    lane: usize,
    /// How many calls it has under way.
    calls: usize,
    /// Since when it takes along who comes, while it does.
    boards_since: Option<Instant>,
    /// Until when requests wait for its last call rather than follow it; for good if nothing is said.
    waited_for_until: Option<Instant>,
}

#[derive(Debug)]
struct Call {
    number: u64,
    flight: u64,
    lane: usize,
    /// How many counters it has.
    counters: usize,
    at: Instant,
    /// What it has put in flight.
    marks: Marks,
}

impl Traffic {
    pub(super) fn new(lanes: Vec<usize>, depth: usize) -> Self {
        Self {
            free: lanes,
            depth,
            flights: Vec::new(),
            calls: Vec::new(),
            next: 0,
            took: Duration::ZERO,
            usual: Duration::ZERO,
            missed_at: None,
        }
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.flights.is_empty() && self.calls.is_empty()
    }

    /// How long calls usually take.
    pub(super) const fn usual(&self) -> Duration {
        self.usual
    }

    /// The connections on which a call has been under way for this long, if that is news. When we
    /// are the ones who stood still, everybody who waits misses the deadline at the same moment, and
    /// the answers are read in the next: that is one miss.
    pub(super) fn overdue(&mut self, time: Duration) -> Vec<usize> {
        let now = Instant::now();
        if self.missed_at.is_some_and(|at| now - at < FAR) {
            return Vec::new();
        }
        let late = self.calls.iter().filter(|call| now - call.at >= time);
        let mut lanes: Vec<_> = late.map(|call| call.lane).collect();
        lanes.sort_unstable();
        lanes.dedup();
        if !lanes.is_empty() {
            self.missed_at = Some(now);
        }
        lanes
    }

    /// What calls have put in flight that left this long ago, unless it is known already.
    pub(super) fn marks_older_than(&mut self, time: Duration) -> impl Iterator<Item = &mut Marks> {
        let now = Instant::now();
        let late = move |call: &&mut Call| !call.marks.is_empty() && now - call.at >= time;
        self.calls.iter_mut().filter(late).map(|call| &mut call.marks)
    }

    /// Whether a flight is about to take along everyone who waits. One whose runtime is kept alive
    /// but no longer driven boards forever.
    pub(super) fn boards_soon(&self) -> bool {
        let soon = |since: Instant| since.elapsed() < MOMENT;
        self.flights.iter().any(|flight| flight.boards_since.is_some_and(soon))
    }

    pub(super) fn is_boarding(&self, flight: u64) -> bool {
        self.flights.iter().any(|it| it.number == flight && it.boards_since.is_some())
    }

    /// Where calls may have any company, a few requests wait for the end of a call that has many
    /// counters and has just left: requests that share a call cost Redis less than half of what
    /// they cost alone. Unless calls take so long that the wait would be felt.
    pub(super) fn is_worth(
        &self,
        requests: usize,
        by: Option<u64>,
        may_have_company: bool,
    ) -> bool {
        let is_full = |call: &Call| {
            2 * requests < call.counters && Some(call.flight) != by && call.at.elapsed() < MOMENT
        };
        let may_wait = may_have_company && self.took < FAR;
        let waits = may_wait && self.calls.iter().any(is_full);
        requests > 0 && !waits
    }

    /// How many other flights could take along some of those who wait.
    pub(super) fn others(&self, flight: u64) -> usize {
        let boards = |it: &&Flight| it.boards_since.is_some() && it.number != flight;
        self.free.len() + self.flights.iter().filter(boards).count()
    }

    /// Records a flight that begins to board, if there is a connection for it.
    pub(super) fn begin(&mut self) -> Option<(u64, usize)> {
        let (lane, number, boards_since) = (self.free.pop()?, self.next, Some(Instant::now()));
        self.next += 1;
        self.flights.push(Flight { number, lane, calls: 0, boards_since, waited_for_until: None });
        Some((number, lane))
    }

    /// Has a flight board once more whose last call nobody should wait for any longer, if that is of
    /// use: `waiting` is how many would come along on a connection. Returns the connection.
    pub(super) fn begin_another(
        &mut self,
        may_have_company: bool,
        waiting: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        // Where calls come back at once, this takes no look at the clock.
        if self.took < FAR {
            return None;
        }
        let now = Instant::now();
        let may_follow = |it: &Flight| {
            it.calls < self.depth
                && it.boards_since.is_none()
                && it.waited_for_until.is_some_and(|until| now >= until)
        };
        let is_of_use =
            |it: &Flight| self.is_worth(waiting(it.lane), Some(it.number), may_have_company);
        let place = self.flights.iter().position(|it| may_follow(it) && is_of_use(it))?;
        let flight = &mut self.flights[place];
        flight.boards_since = Some(now);
        Some(flight.lane)
    }

    /// Records that a flight found nobody to take along; returns whether it is over.
    pub(super) fn stayed(&mut self, flight: u64) -> bool {
        self.flight(flight).is_none_or(|flight| {
            flight.boards_since = None;
            flight.calls == 0
        })
    }

    /// Records a call that leaves with this many counters; returns its number, and until when those
    /// who come later wait for it, if others may follow.
    pub(super) fn left(
        &mut self,
        flight: u64,
        counters: usize,
        marks: Marks,
        deadline: Duration,
    ) -> (u64, Option<Instant>) {
        let (at, number) = (Instant::now(), self.next);
        let until = self.is_followed().then(|| at + self.pace(deadline));
        self.next += 1;
        if let Some(it) = self.flight(flight) {
            it.calls += 1;
            (it.boards_since, it.waited_for_until) = (None, until);
            let lane = it.lane;
            self.calls.push(Call { number, flight, lane, counters, at, marks });
        }
        (number, until)
    }

    /// Whether a call may leave before the last one on its connection is back. A near Redis answers
    /// at once, and requests that come meanwhile share the next call.
    fn is_followed(&self) -> bool {
        self.depth > 1 && self.took >= FAR
    }

    /// How long requests wait for a call, before they follow it on the same connection. Whoever waits
    /// for a turn and then for the answer keeps the deadline, as long as the round trip does.
    fn pace(&self, deadline: Duration) -> Duration {
        let pace = (self.usual / CALLS_AT_ONCE).max(MOMENT);
        match deadline.checked_sub(self.usual).map(|left| left / 4) {
            Some(left) if left < TICK => Duration::ZERO,
            Some(left) => pace.min(left),
            None => pace,
        }
    }

    /// Records a call that was answered, and returns what it had put in flight. If its flight has
    /// no other, it boards again.
    pub(super) fn answered(&mut self, flight: u64, call: u64) -> Marks {
        let Some(place) = self.calls.iter().position(|it| it.number == call) else {
            return Marks::new();
        };
        let (call, now) = (self.calls.swap_remove(place), Instant::now());
        self.took = now - call.at;
        self.usual = match self.usual {
            Duration::ZERO => self.took,
            usual => (usual * 7 + self.took) / 8,
        };
        if let Some(flight) = self.flight(flight) {
            flight.calls -= 1;
            flight.boards_since = flight.boards_since.or((flight.calls == 0).then_some(now));
        }
        call.marks
    }

    /// Records a flight that is over, and returns what its calls had put in flight.
    pub(super) fn landed(&mut self, flight: u64) -> Vec<Marks> {
        if let Some(place) = self.flights.iter().position(|it| it.number == flight) {
            self.free.push(self.flights.swap_remove(place).lane);
        }
        self.calls.extract_if(.., |call| call.flight == flight).map(|call| call.marks).collect()
    }

    fn flight(&mut self, number: u64) -> Option<&mut Flight> {
        self.flights.iter_mut().find(|flight| flight.number == number)
    }
}

/// By so much a timer may be late. Where there is less to spare, nobody waits for one.
const TICK: Duration = Duration::from_millis(1);
/// About as many calls are under way on a connection at a time, if the deadline allows.
const CALLS_AT_ONCE: u32 = 16;
