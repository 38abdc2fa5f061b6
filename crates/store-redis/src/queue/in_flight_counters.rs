//! Tracks which counters are in flight on which connection.

use tidegate_core::Fingerprint;

use crate::batch::RedisRequest;

/// The counters in flight, by class.
///
/// Requests to one counter are decided in the order in which they were made. Two connections do not
/// keep that order between them, so a counter is in flight on only one of them. One connection keeps
/// the order: a later call on it may have the same counter.
///
/// A counter that shares a class with another now and then waits needlessly, for as long as a call
/// takes.
#[derive(Debug)]
pub(super) struct InFlightCounters {
    classes: Box<[CounterClass]>,
}

/// The counters of one class.
#[derive(Clone, Copy, Debug, Default)]
struct CounterClass {
    /// How many times they are in flight.
    count: u32,
    /// On which connection.
    lane: u32,
}

/// The classes of a call's counters, once for each charge.
pub(super) type ClassMarks = Vec<u16>;

/// Enough that few counters share a class with the hundred or so counters of a call.
pub(super) const CLASSES: usize = 2_048;

impl InFlightCounters {
    pub(super) fn new() -> Self {
        Self { classes: vec![CounterClass::default(); CLASSES].into() }
    }

    /// The connection for which a request must wait: one that has any of its counters in flight, and
    /// is not the one on which the request would be sent.
    pub(super) fn blocking_lane(
        &self,
        request: &RedisRequest,
        leaves_on: Option<usize>,
    ) -> Option<usize> {
        let in_flight = classes(request).map(|class| self.classes[usize::from(class)]);
        let mut lanes = in_flight.filter(|class| class.count > 0).map(|class| class.lane as usize);
        lanes.find(|lane| Some(*lane) != leaves_on)
    }

    pub(super) fn mark(&mut self, request: &RedisRequest, lane: usize, marks: &mut ClassMarks) {
        for class in classes(request) {
            let entry = &mut self.classes[usize::from(class)];
            (entry.count, entry.lane) = (entry.count + 1, lane as u32);
            marks.push(class);
        }
    }

    pub(super) fn clear(&mut self, marks: &mut ClassMarks) {
        for class in marks.drain(..) {
            self.classes[usize::from(class)].count -= 1;
        }
    }
}

/// The counters of requests that stay behind: later requests for them must stay behind too.
#[derive(Default)]
pub(super) struct DeferredCounters {
    /// A bit for each class.
    classes: [u64; CLASSES / 64],
    /// The connection for which the last of them waits.
    lane: usize,
}

impl DeferredCounters {
    /// The connection for which a request must wait, because an earlier one does.
    pub(super) fn blocking_lane(&self, request: &RedisRequest) -> Option<usize> {
        classes(request)
            .any(|class| self.classes[word(class)] & bit(class) != 0)
            .then_some(self.lane)
    }

    pub(super) fn add(&mut self, request: &RedisRequest, lane: usize) {
        classes(request).for_each(|class| self.classes[word(class)] |= bit(class));
        self.lane = lane;
    }
}

const fn word(class: u16) -> usize {
    class as usize / 64
}

const fn bit(class: u16) -> u64 {
    1 << (class % 64)
}

/// The classes of a request's counters.
pub(super) fn classes(request: &RedisRequest) -> impl Iterator<Item = u16> {
    request.items().iter().map(|item| class(item.counter))
}

pub(super) const fn class(counter: Fingerprint) -> u16 {
    (counter.low() % CLASSES as u64) as u16
}
