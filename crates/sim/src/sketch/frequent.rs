//! Finds the most frequent items of a stream in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

/// The most frequent items of a stream, in bounded memory.
///
/// When there are too many candidates, the lower half is dropped and every count falls by the
/// median. So a count is too low by at most [`error`](FrequentSketch::error), every item that came more
/// often than that is found, and a step takes constant time on average.
///
/// ```
/// use tidegate_sim::sketch::FrequentSketch;
///
/// let mut callers = FrequentSketch::new(100);
/// for caller in [1, 2, 1, 3, 1] {
///     callers.add(caller, || format!("caller {caller}"));
/// }
/// let top = callers.top(1);
/// assert_eq!((top[0].label.as_str(), top[0].count), ("caller 1", 3));
/// ```
#[derive(Clone, Debug)]
pub struct FrequentSketch<K> {
    counts: HashMap<K, FrequentItem, FixedState>,
    capacity: usize,
    error: u64,
}

/// One of the most frequent items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrequentItem {
    /// How often it came, or a little less.
    pub count: u64,
    /// Its label.
    pub label: String,
}

impl<K: Copy + Eq + Hash> FrequentSketch<K> {
    /// With room for this many candidates.
    pub fn new(capacity: usize) -> Self {
        Self { counts: HashMap::default(), capacity: capacity.max(2), error: 0 }
    }

    /// Counts an item. The label is created only for new candidates.
    pub fn add(&mut self, key: K, label: impl FnOnce() -> String) {
        let new = || FrequentItem { count: 0, label: label() };
        self.counts.entry(key).or_insert_with(new).count += 1;
        if self.counts.len() > self.capacity {
            self.shrink();
        }
    }

    /// The most frequent first; among equals, the lower label.
    pub fn top(&self, most: usize) -> Vec<FrequentItem> {
        let mut all: Vec<_> = self.counts.values().cloned().collect();
        all.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.label.cmp(&b.label)));
        all.truncate(most);
        all
    }

    /// By how much a count may be too low.
    pub const fn error(&self) -> u64 {
        self.error
    }

    fn shrink(&mut self) {
        let mut counts: Vec<u64> = self.counts.values().map(|item| item.count).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.counts.retain(|_, item| {
            item.count = item.count.saturating_sub(median);
            item.count > 0
        });
        self.error = self.error.saturating_add(median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{SeededRandom, Zipf};

    #[test]
    fn frequent_ones_are_found_among_very_many() {
        let (zipf, mut random) = (Zipf::new(100_000, 1.0), SeededRandom::new(9));
        let (mut exact, mut sketch) = (HashMap::<usize, u64>::new(), FrequentSketch::new(1_000));
        for _ in 0..500_000 {
            let key = zipf.pick(&mut random);
            *exact.entry(key).or_default() += 1;
            sketch.add(key, || key.to_string());
        }
        assert!(sketch.counts.len() <= 1_000);
        assert!(sketch.error() < 2 * 500_000 / 1_000, "{}", sketch.error());
        for (rank, item) in sketch.top(10).iter().enumerate() {
            assert_eq!(item.label, rank.to_string());
            let truth = exact[&rank];
            assert!(item.count <= truth && truth <= item.count + sketch.error());
        }
    }

    #[test]
    fn a_stream_without_frequent_ones_stays_bounded() {
        let mut sketch = FrequentSketch::new(64);
        (0..100_000).for_each(|key| sketch.add(key, String::new));
        assert!(sketch.counts.len() <= 64);
    }
}
