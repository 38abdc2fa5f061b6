//! Which counters are in flight.

use tidegate_core::Fingerprint;

use crate::batch::RedisRequest;

/// Requests to one counter are decided in the order in which they were made. Two connections do not
/// keep that order between them, so a counter is in flight on only one of them. That one keeps it:
/// a later call may have the same counter.
///
/// Counters are distinguished by class: a counter that shares a class with another now and then
/// waits needlessly, for as long as a call takes.
#[derive(Debug)]
pub(super) struct InFlightCounters {
    classes: Box<[CounterClass]>,
}

/// The counters of one class.
#[derive(Clone, Copy, Debug, Default)]
struct CounterClass {
    /// How often they are in flight.
    count: u32,
    /// On which connection.
    lane: u32,
}

/// Classes that somebody has put in flight, once for each time they did.
pub(super) type ClassMarks = Vec<u16>;

/// Few share a class with the hundred or fewer counters of a call.
pub(super) const CLASSES: usize = 2_048;

impl InFlightCounters {
    pub(super) fn new() -> Self {
        Self { classes: vec![CounterClass::default(); CLASSES].into() }
    }

    /// The connection for which a request must wait: one that has any of its counters, and is not
    /// the one on which it would leave.
    pub(super) fn blocking_lane(
        &self,
        ask: &RedisRequest,
        leaves_on: Option<usize>,
    ) -> Option<usize> {
        let aloft = classes(ask).map(|class| self.classes[usize::from(class)]);
        let mut lanes = aloft.filter(|class| class.count > 0).map(|class| class.lane as usize);
        lanes.find(|lane| Some(*lane) != leaves_on)
    }

    pub(super) fn mark(&mut self, ask: &RedisRequest, lane: usize, marks: &mut ClassMarks) {
        for class in classes(ask) {
            let aloft = &mut self.classes[usize::from(class)];
            (aloft.count, aloft.lane) = (aloft.count + 1, lane as u32);
            marks.push(class);
        }
    }

    pub(super) fn clear(&mut self, marks: &mut ClassMarks) {
        for class in marks.drain(..) {
            self.classes[usize::from(class)].count -= 1;
        }
    }
}

/// What requests that stay behind ask about: whoever asks about the same must stay behind them.
#[derive(Default)]
pub(super) struct DeferredCounters {
    /// A bit for each class.
    classes: [u64; CLASSES / 64],
    /// The connection for which the last of them waits.
    lane: usize,
}

impl DeferredCounters {
    /// The connection for which a request must wait, because somebody before it does.
    pub(super) fn blocking_lane(&self, ask: &RedisRequest) -> Option<usize> {
        classes(ask).any(|class| self.classes[word(class)] & bit(class) != 0).then_some(self.lane)
    }

    pub(super) fn add(&mut self, ask: &RedisRequest, lane: usize) {
        classes(ask).for_each(|class| self.classes[word(class)] |= bit(class));
        self.lane = lane;
    }
}

const fn word(class: u16) -> usize {
    class as usize / 64
}

const fn bit(class: u16) -> u64 {
    1 << (class % 64)
}

/// The classes of what a request is about.
pub(super) fn classes(ask: &RedisRequest) -> impl Iterator<Item = u16> {
    ask.items().iter().map(|item| class(item.counter))
}

pub(super) const fn class(counter: Fingerprint) -> u16 {
    (counter.low() % CLASSES as u64) as u16
}
