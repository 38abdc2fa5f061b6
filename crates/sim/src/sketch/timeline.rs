//! Counts events over time in a bounded number of bins.

use tidegate::{Span, Timestamp};

/// Counts of several kinds over time, in a bounded number of equal bins.
///
/// The length of a stream is not known in advance: when it runs out of bins, neighbours are merged.
/// Bins have round lengths, and begin by the clock.
///
/// ```
/// use tidegate::{Span, Timestamp};
/// use tidegate_sim::sketch::TimelineSketch;
///
/// let mut timeline = TimelineSketch::<1>::default();
/// for second in 0..3_600 {
///     timeline.add(Timestamp::from_secs(second), 0);
/// }
/// assert_eq!(timeline.bins().len(), 120);
/// assert_eq!((timeline.width(), timeline.bins()[0]), (Span::from_secs(30), [30]));
/// ```
#[derive(Clone, Debug)]
pub struct TimelineSketch<const KINDS: usize> {
    /// When the first bin begins; known from the first event on.
    start: Option<Timestamp>,
    width: Span,
    bins: Vec<[u64; KINDS]>,
}

impl<const KINDS: usize> Default for TimelineSketch<KINDS> {
    fn default() -> Self {
        Self { start: None, width: Span::from_secs(1), bins: Vec::new() }
    }
}

impl<const KINDS: usize> TimelineSketch<KINDS> {
    /// The most bins there are.
    pub const MOST: usize = 240;

    /// Counts an event of a kind. An event before the first one counts in the first bin.
    pub fn add(&mut self, at: Timestamp, kind: usize) {
        self.start.get_or_insert(at.window_start(self.width));
        while self.bin(at) >= Self::MOST {
            self.widen();
        }
        let bin = self.bin(at);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, [0; KINDS]);
        }
        if let Some(count) = self.bins.get_mut(bin).and_then(|bin| bin.get_mut(kind)) {
            *count += 1;
        }
    }

    /// When the first bin begins.
    pub fn start(&self) -> Timestamp {
        self.start.unwrap_or(Timestamp::ZERO)
    }

    /// How long a bin is.
    pub const fn width(&self) -> Span {
        self.width
    }

    /// The counts of each bin, by kind.
    pub fn bins(&self) -> &[[u64; KINDS]] {
        &self.bins
    }

    fn bin(&self, at: Timestamp) -> usize {
        let micros = at.since(self.start()).as_micros();
        usize::try_from(micros / self.width.as_micros().max(1)).unwrap_or(usize::MAX)
    }

    fn widen(&mut self) {
        let old = self.width;
        let next = STEPS.iter().map(|secs| Span::from_secs(*secs)).find(|step| *step > old);
        self.width = next.unwrap_or(old + old);
        let start = self.start().window_start(self.width);
        let before = self.start().since(start).as_micros() / old.as_micros();
        let empty = std::iter::repeat_n([0; KINDS], before as usize);
        let bins: Vec<_> = empty.chain(self.bins.drain(..)).collect();
        let sum = |some: &[[u64; KINDS]]| {
            std::array::from_fn(|kind| some.iter().map(|bin| bin[kind]).sum())
        };
        let together = (self.width.as_micros() / old.as_micros()) as usize;
        self.bins = bins.chunks(together).map(sum).collect();
        self.start = Some(start);
    }
}

/// The lengths of bins in seconds, each a multiple of the previous one; after the last, they double.
const STEPS: &[u64] = &[2, 10, 30, 60, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_far_apart() {
        let mut timeline = TimelineSketch::<2>::default();
        let times = [1_000_000, 1_000_001, 999_000, 1_000_500, 1_090_000, 9_000_000_000, u64::MAX];
        for (index, secs) in times.into_iter().enumerate() {
            timeline.add(Timestamp::from_secs(secs), index % 2);
            assert!(timeline.bins().len() <= TimelineSketch::<2>::MOST);
        }
        let total = |kind: usize| timeline.bins().iter().map(|bin| bin[kind]).sum::<u64>();
        assert_eq!((total(0), total(1)), (4, 3));
    }
}
