//! The senders of a queue, their calls under way, and when another call may follow.

use std::time::Duration;

use tokio::time::Instant;

use super::in_flight_counters::ClassMarks;

/// How long a sender takes to gather requests, or a call to be answered, if all is well. After this,
/// requests no longer wait for it.
pub(super) const MOMENT: Duration = Duration::from_millis(2);
/// If calls take this long, requests do not wait for the end of one.
pub(super) const LONG_ROUND_TRIP: Duration = Duration::from_millis(1);

/// Decides when calls are sent, and on which connection.
#[derive(Debug)]
pub(super) struct CallSchedule {
    /// The connections that can have another sender, each listed as often as that.
    free_lanes: Vec<usize>,
    /// How many calls a sender may have under way.
    depth: usize,
    senders: Vec<SenderRecord>,
    calls: Vec<CallRecord>,
    /// The number of the next sender or call.
    next: u64,
    /// How long the last call took.
    took: Duration,
    /// How long calls usually take.
    usual: Duration,
    /// When a caller last missed its deadline because of a late call.
    missed_at: Option<Instant>,
}

/// A sender: calls that follow one another on a connection.
#[derive(Debug)]
struct SenderRecord {
    number: u64,
    lane: usize,
    /// How many calls it has under way.
    calls: usize,
    /// Since when it gathers requests, while it does.
    gathering_since: Option<Instant>,
    /// Until when requests wait for its last call rather than follow it; `None` if until its end.
    holds_until: Option<Instant>,
}

/// A call under way.
#[derive(Debug)]
struct CallRecord {
    number: u64,
    sender: u64,
    lane: usize,
    /// How many counters it has.
    counters: usize,
    at: Instant,
    /// The classes of counters that it has in flight.
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

    /// The connections on which a call has been under way for this long, unless just reported. If our
    /// own process stalled, all callers miss their deadlines at the same moment, and the answers are
    /// read in the next: that counts as one miss.
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

    /// The marks of calls that were sent this long ago, unless they are cleared already.
    pub(super) fn marks_older_than(
        &mut self,
        time: Duration,
    ) -> impl Iterator<Item = &mut ClassMarks> {
        let now = Instant::now();
        let late = move |call: &&mut CallRecord| !call.marks.is_empty() && now - call.at >= time;
        self.calls.iter_mut().filter(late).map(|call| &mut call.marks)
    }

    /// Whether a sender is about to take the waiting requests. The time is bounded, since a sender whose
    /// runtime is kept alive but no longer driven gathers forever.
    pub(super) fn is_any_gathering(&self) -> bool {
        let soon = |since: Instant| since.elapsed() < MOMENT;
        self.senders.iter().any(|sender| sender.gathering_since.is_some_and(soon))
    }

    pub(super) fn is_gathering(&self, sender: u64) -> bool {
        self.senders
            .iter()
            .any(|record| record.number == sender && record.gathering_since.is_some())
    }

    /// Whether to send this many requests now. If any requests can share a call, a few of them wait for
    /// the end of a call that has many counters and was just sent: requests that share a call cost
    /// Redis less than half of what they cost alone. They do not wait if calls take long.
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

    /// How many other senders could take some of the waiting requests.
    pub(super) fn other_senders(&self, sender: u64) -> usize {
        let gathers =
            |record: &&SenderRecord| record.gathering_since.is_some() && record.number != sender;
        self.free_lanes.len() + self.senders.iter().filter(gathers).count()
    }

    /// Starts a sender, which gathers requests first, if there is a connection for it.
    pub(super) fn start_sender(&mut self) -> Option<(u64, usize)> {
        let (lane, number) = (self.free_lanes.pop()?, self.next);
        let gathering_since = Some(Instant::now());
        self.next += 1;
        self.senders.push(SenderRecord {
            number,
            lane,
            calls: 0,
            gathering_since,
            holds_until: None,
        });
        Some((number, lane))
    }

    /// Has a sender gather requests again, if its last call should no longer be waited for and that is
    /// of use: `waiting` is how many requests a connection could take. Returns the connection.
    pub(super) fn resume_sender(
        &mut self,
        may_have_company: bool,
        waiting: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        // If calls are answered quickly, this does not even read the clock.
        if self.took < LONG_ROUND_TRIP {
            return None;
        }
        let now = Instant::now();
        let may_follow = |record: &SenderRecord| {
            record.calls < self.depth
                && record.gathering_since.is_none()
                && record.holds_until.is_some_and(|until| now >= until)
        };
        let is_of_use = |record: &SenderRecord| {
            self.is_call_worthwhile(waiting(record.lane), Some(record.number), may_have_company)
        };
        let is_next = |record: &SenderRecord| may_follow(record) && is_of_use(record);
        let index = self.senders.iter().position(is_next)?;
        let record = &mut self.senders[index];
        record.gathering_since = Some(now);
        Some(record.lane)
    }

    /// Records that a sender found no request to send; returns whether it has ended.
    pub(super) fn pause_sender(&mut self, sender: u64) -> bool {
        self.sender(sender).is_none_or(|record| {
            record.gathering_since = None;
            record.calls == 0
        })
    }

    /// Records a call that is sent with this many counters. Returns its number, and until when later
    /// requests wait for it, if other calls may follow it.
    pub(super) fn record_call(
        &mut self,
        sender: u64,
        counters: usize,
        marks: ClassMarks,
        deadline: Duration,
    ) -> (u64, Option<Instant>) {
        let (at, number) = (Instant::now(), self.next);
        let until = self.is_followed().then(|| at + self.pace(deadline));
        self.next += 1;
        if let Some(record) = self.sender(sender) {
            record.calls += 1;
            (record.gathering_since, record.holds_until) = (None, until);
            let lane = record.lane;
            self.calls.push(CallRecord { number, sender, lane, counters, at, marks });
        }
        (number, until)
    }

    /// Whether a call may be sent before the last one on its connection is answered. A near Redis
    /// answers quickly, and requests that arrive meanwhile share the next call.
    fn is_followed(&self) -> bool {
        self.depth > 1 && self.took >= LONG_ROUND_TRIP
    }

    /// How long requests wait for a call before they follow it on the same connection. A request that
    /// waits this long and then for its answer meets the deadline, as long as the round trip does.
    fn pace(&self, deadline: Duration) -> Duration {
        let pace = (self.usual / CALLS_AT_ONCE).max(MOMENT);
        match deadline.checked_sub(self.usual).map(|left| left / 4) {
            Some(left) if left < TICK => Duration::ZERO,
            Some(left) => pace.min(left),
            None => pace,
        }
    }

    /// Records a call that was answered, and returns its marks. If its sender has no other call, the
    /// sender gathers requests again.
    pub(super) fn record_answer(&mut self, sender: u64, call: u64) -> ClassMarks {
        let Some(index) = self.calls.iter().position(|record| record.number == call) else {
            return ClassMarks::new();
        };
        let (call, now) = (self.calls.swap_remove(index), Instant::now());
        self.took = now - call.at;
        self.usual = match self.usual {
            Duration::ZERO => self.took,
            usual => (usual * 7 + self.took) / 8,
        };
        if let Some(record) = self.sender(sender) {
            record.calls -= 1;
            record.gathering_since = record.gathering_since.or((record.calls == 0).then_some(now));
        }
        call.marks
    }

    /// Records that a sender has ended, and returns the marks of its calls.
    pub(super) fn end_sender(&mut self, sender: u64) -> Vec<ClassMarks> {
        if let Some(index) = self.senders.iter().position(|record| record.number == sender) {
            self.free_lanes.push(self.senders.swap_remove(index).lane);
        }
        self.calls.extract_if(.., |call| call.sender == sender).map(|call| call.marks).collect()
    }

    fn sender(&mut self, number: u64) -> Option<&mut SenderRecord> {
        self.senders.iter_mut().find(|record| record.number == number)
    }
}

/// How late a timer may fire. If there is less time to spare, requests do not wait for one.
const TICK: Duration = Duration::from_millis(1);
/// About how many calls are under way on a connection at a time, if the deadline allows.
const CALLS_AT_ONCE: u32 = 16;
