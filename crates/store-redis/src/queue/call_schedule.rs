//! Which flights are under way, with which calls, and when another call may follow.

use std::time::Duration;

use tokio::time::Instant;

use super::in_flight_counters::ClassMarks;

/// How long a flight takes to board or, if all is well, to land: past this nobody counts on it.
pub(super) const MOMENT: Duration = Duration::from_millis(2);
/// Where calls take this long, waiting for one is felt.
pub(super) const LONG_ROUND_TRIP: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct CallSchedule {
    /// The connections without a flight, each listed as often as it can have one more.
    free_lanes: Vec<usize>,
    /// How many calls a flight may have under way.
    depth: usize,
    senders: Vec<SenderRecord>,
    calls: Vec<CallRecord>,
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
struct SenderRecord {
    number: u64,
    lane: usize,
    /// How many calls it has under way.
    calls: usize,
    /// Since when it takes along who comes, while it does.
    gathering_since: Option<Instant>,
    /// Until when requests wait for its last call rather than follow it; for good if nothing is said.
    holds_until: Option<Instant>,
}

#[derive(Debug)]
struct CallRecord {
    number: u64,
    sender: u64,
    lane: usize,
    /// How many counters it has.
    counters: usize,
    at: Instant,
    /// What it has put in flight.
    marks: ClassMarks,
}

impl CallSchedule {
    pub(super) fn new(lanes: Vec<usize>, depth: usize) -> Self {
        Self {
            free_lanes: lanes,
            depth,
            senders: Vec::new(),
            calls: Vec::new(),
            next: 0,
            took: Duration::ZERO,
            usual: Duration::ZERO,
            missed_at: None,
        }
    }

    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.senders.is_empty() && self.calls.is_empty()
    }

    /// How long calls usually take.
    pub(super) const fn usual_round_trip(&self) -> Duration {
        self.usual
    }

    /// The connections on which a call has been under way for this long, if that is news. When we
    /// are the ones who stood still, everybody who waits misses the deadline at the same moment, and
    /// the answers are read in the next: that is one miss.
    pub(super) fn late_lanes(&mut self, time: Duration) -> Vec<usize> {
        let now = Instant::now();
        if self.missed_at.is_some_and(|at| now - at < LONG_ROUND_TRIP) {
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
    pub(super) fn marks_older_than(
        &mut self,
        time: Duration,
    ) -> impl Iterator<Item = &mut ClassMarks> {
        let now = Instant::now();
        let late = move |call: &&mut CallRecord| !call.marks.is_empty() && now - call.at >= time;
        self.calls.iter_mut().filter(late).map(|call| &mut call.marks)
    }

    /// Whether a flight is about to take along everyone who waits. One whose runtime is kept alive
    /// but no longer driven boards forever.
    pub(super) fn is_any_gathering(&self) -> bool {
        let soon = |since: Instant| since.elapsed() < MOMENT;
        self.senders.iter().any(|flight| flight.gathering_since.is_some_and(soon))
    }

    pub(super) fn is_gathering(&self, flight: u64) -> bool {
        self.senders.iter().any(|it| it.number == flight && it.gathering_since.is_some())
    }

    /// Where calls may have any company, a few requests wait for the end of a call that has many
    /// counters and has just left: requests that share a call cost Redis less than half of what
    /// they cost alone. Unless calls take so long that the wait would be felt.
    pub(super) fn is_call_worthwhile(
        &self,
        requests: usize,
        by: Option<u64>,
        may_have_company: bool,
    ) -> bool {
        let is_full = |call: &CallRecord| {
            2 * requests < call.counters && Some(call.sender) != by && call.at.elapsed() < MOMENT
        };
        let may_wait = may_have_company && self.took < LONG_ROUND_TRIP;
        let waits = may_wait && self.calls.iter().any(is_full);
        requests > 0 && !waits
    }

    /// How many other flights could take along some of those who wait.
    pub(super) fn other_senders(&self, flight: u64) -> usize {
        let boards = |it: &&SenderRecord| it.gathering_since.is_some() && it.number != flight;
        self.free_lanes.len() + self.senders.iter().filter(boards).count()
    }

    /// Records a flight that begins to board, if there is a connection for it.
    pub(super) fn start_sender(&mut self) -> Option<(u64, usize)> {
        let (lane, number, boards_since) =
            (self.free_lanes.pop()?, self.next, Some(Instant::now()));
        self.next += 1;
        self.senders.push(SenderRecord {
            number,
            lane,
            calls: 0,
            gathering_since: boards_since,
            holds_until: None,
        });
        Some((number, lane))
    }

    /// Has a flight board once more whose last call nobody should wait for any longer, if that is of
    /// use: `waiting` is how many would come along on a connection. Returns the connection.
    pub(super) fn resume_sender(
        &mut self,
        may_have_company: bool,
        waiting: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        // Where calls come back at once, this takes no look at the clock.
        if self.took < LONG_ROUND_TRIP {
            return None;
        }
        let now = Instant::now();
        let may_follow = |it: &SenderRecord| {
            it.calls < self.depth
                && it.gathering_since.is_none()
                && it.holds_until.is_some_and(|until| now >= until)
        };
        let is_of_use = |it: &SenderRecord| {
            self.is_call_worthwhile(waiting(it.lane), Some(it.number), may_have_company)
        };
        let place = self.senders.iter().position(|it| may_follow(it) && is_of_use(it))?;
        let flight = &mut self.senders[place];
        flight.gathering_since = Some(now);
        Some(flight.lane)
    }

    /// Records that a flight found nobody to take along; returns whether it is over.
    pub(super) fn pause_sender(&mut self, flight: u64) -> bool {
        self.sender(flight).is_none_or(|flight| {
            flight.gathering_since = None;
            flight.calls == 0
        })
    }

    /// Records a call that leaves with this many counters; returns its number, and until when those
    /// who come later wait for it, if others may follow.
    pub(super) fn record_call(
        &mut self,
        flight: u64,
        counters: usize,
        marks: ClassMarks,
        deadline: Duration,
    ) -> (u64, Option<Instant>) {
        let (at, number) = (Instant::now(), self.next);
        let until = self.is_followed().then(|| at + self.pace(deadline));
        self.next += 1;
        if let Some(it) = self.sender(flight) {
            it.calls += 1;
            (it.gathering_since, it.holds_until) = (None, until);
            let lane = it.lane;
            self.calls.push(CallRecord { number, sender: flight, lane, counters, at, marks });
        }
        (number, until)
    }

    /// Whether a call may leave before the last one on its connection is back. A near Redis answers
    /// at once, and requests that come meanwhile share the next call.
    fn is_followed(&self) -> bool {
        self.depth > 1 && self.took >= LONG_ROUND_TRIP
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
    pub(super) fn record_answer(&mut self, flight: u64, call: u64) -> ClassMarks {
        let Some(place) = self.calls.iter().position(|it| it.number == call) else {
            return ClassMarks::new();
        };
        let (call, now) = (self.calls.swap_remove(place), Instant::now());
        self.took = now - call.at;
        self.usual = match self.usual {
            Duration::ZERO => self.took,
            usual => (usual * 7 + self.took) / 8,
        };
        if let Some(flight) = self.sender(flight) {
            flight.calls -= 1;
            flight.gathering_since = flight.gathering_since.or((flight.calls == 0).then_some(now));
        }
        call.marks
    }

    /// Records a flight that is over, and returns what its calls had put in flight.
    pub(super) fn end_sender(&mut self, flight: u64) -> Vec<ClassMarks> {
        if let Some(place) = self.senders.iter().position(|it| it.number == flight) {
            self.free_lanes.push(self.senders.swap_remove(place).lane);
        }
        self.calls.extract_if(.., |call| call.sender == flight).map(|call| call.marks).collect()
    }

    fn sender(&mut self, number: u64) -> Option<&mut SenderRecord> {
        self.senders.iter_mut().find(|flight| flight.number == number)
    }
}

/// By so much a timer may be late. Where there is less to spare, nobody waits for one.
const TICK: Duration = Duration::from_millis(1);
/// About as many calls are under way on a connection at a time, if the deadline allows.
const CALLS_AT_ONCE: u32 = 16;
