//! Which counters are in flight.

use tidegate_core::Fingerprint;

use crate::batch::Ask;

/// Requests to one counter are decided in the order in which they were made. Two connections do not
/// keep that order between them, so a counter is in flight on only one of them.
///
/// Counters are distinguished by class: a counter that shares a class with another now and then
/// waits needlessly, for as long as a call takes.
#[derive(Debug)]
pub(super) struct Aloft {
    /// How often each class is in flight.
    counts: Box<[u32]>,
}

/// Classes that somebody has put in flight, once for each time they did.
pub(super) type Marks = Vec<u16>;

/// Few share a class with the hundred or fewer counters of a call.
pub(super) const CLASSES: usize = 2_048;

impl Aloft {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; CLASSES].into() }
    }

    /// Whether a request must wait for others.
    pub(super) fn holds(&self, ask: &Ask) -> bool {
        classes(ask).any(|class| self.counts[usize::from(class)] > 0)
    }

    pub(super) fn mark(&mut self, ask: &Ask, marks: &mut Marks) {
        for class in classes(ask) {
            self.counts[usize::from(class)] += 1;
            marks.push(class);
        }
    }

    pub(super) fn clear(&mut self, marks: &mut Marks) {
        for class in marks.drain(..) {
            self.counts[usize::from(class)] -= 1;
        }
    }
}

/// The classes of what a request is about.
pub(super) fn classes(ask: &Ask) -> impl Iterator<Item = u16> {
    ask.items().iter().map(|item| class(item.counter))
}

pub(super) const fn class(counter: Fingerprint) -> u16 {
    (counter.low() % CLASSES as u64) as u16
}
