//! The space-saving sketch: the most frequent of any number of keys, in fixed memory.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tidegate::Fingerprint;

/// Counts the most frequent keys with a fixed number of counters.
///
/// A key without a counter takes over the smallest one, including its count. So a count is never too
/// low, and too high by at most the total divided by the number of counters. Every key that is more
/// frequent than that is included.
#[derive(Debug)]
pub(super) struct TopSketch<L> {
    entries: Vec<SketchEntry<L>>,
    /// The index of each key's entry.
    places: HashMap<Fingerprint, usize, RandomState>,
    /// Indices of entries, as a heap with the smallest count on top.
    heap: Vec<usize>,
    total: u64,
}

/// A key with its count.
#[derive(Clone, Debug)]
pub(super) struct SketchEntry<L> {
    pub(super) who: Fingerprint,
    pub(super) label: L,
    pub(super) count: u64,
    /// By how much the count may be too high.
    pub(super) error: u64,
    /// The entry's position in the heap.
    at: usize,
}

/// Counters of a sketch.
pub(super) const COUNTERS: usize = 256;

impl<L> Default for TopSketch<L> {
    fn default() -> Self {
        Self { entries: Vec::new(), places: HashMap::default(), heap: Vec::new(), total: 0 }
    }
}

impl<L> TopSketch<L> {
    /// Adds `weight` to a key's count. `label` is called only if the key is new here.
    pub(super) fn add(&mut self, who: Fingerprint, weight: u64, label: impl FnOnce() -> L) {
        self.total = self.total.saturating_add(weight);
        if let Some(place) = self.places.get(&who).copied() {
            self.increase(place, weight);
        } else if self.entries.len() < COUNTERS {
            let (place, at) = (self.entries.len(), self.heap.len());
            self.entries.push(SketchEntry { who, label: label(), count: weight, error: 0, at });
            self.places.insert(who, place);
            self.heap.push(place);
            self.sift_up(at);
        } else if let Some(place) = self.heap.first().copied()
            && let Some(entry) = self.entries.get_mut(place)
        {
            self.places.remove(&entry.who);
            self.places.insert(who, place);
            (entry.who, entry.label, entry.error) = (who, label(), entry.count);
            self.increase(place, weight);
        }
    }

    /// The sum of all weights.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// How often a key without an entry may have occurred, at most.
    pub(super) fn most_unseen(&self) -> u64 {
        if self.entries.len() < COUNTERS { 0 } else { self.count_at(0) }
    }

    /// The entries, in no particular order.
    pub(super) fn entries(&self) -> &[SketchEntry<L>] {
        &self.entries
    }

    fn increase(&mut self, place: usize, weight: u64) {
        let Some(entry) = self.entries.get_mut(place) else { return };
        entry.count = entry.count.saturating_add(weight);
        let mut at = entry.at;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let smaller = if self.count_at(right) < self.count_at(left) { right } else { left };
            if self.count_at(smaller) >= self.count_at(at) {
                return;
            }
            self.swap(at, smaller);
            at = smaller;
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let above = (at - 1) / 2;
            if self.count_at(above) <= self.count_at(at) {
                return;
            }
            self.swap(at, above);
            at = above;
        }
    }

    /// The count at a heap position; the maximum for a missing entry, which sorts last.
    fn count_at(&self, at: usize) -> u64 {
        let entry = self.heap.get(at).and_then(|place| self.entries.get(*place));
        entry.map_or(u64::MAX, |entry| entry.count)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for at in [a, b] {
            if let Some(entry) = self.heap.get(at).and_then(|place| self.entries.get_mut(*place)) {
                entry.at = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn key(number: u64) -> Fingerprint {
        Fingerprint::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number)
    }

    #[test]
    fn counts_are_exact_until_there_are_more_keys_than_counters() {
        let mut sketch = TopSketch::default();
        for number in 0..COUNTERS as u64 {
            for _ in 0..=number % 7 {
                sketch.add(key(number), 2, || number);
            }
        }
        assert_eq!(sketch.most_unseen(), 2);
        for entry in sketch.entries() {
            assert_eq!((entry.count, entry.error), (2 * (entry.label % 7 + 1), 0));
        }
    }

    #[test]
    fn no_count_is_too_small_or_too_large_by_more_than_the_bound() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut sketch, mut exact) = (TopSketch::default(), HashMap::<u64, u64>::new());
            for _ in 0..20_000 {
                // A few keys are frequent, many are rare.
                let most = random.u64(1..=3_000);
                let number = random.u64(1..=most);
                let weight = random.u64(1..=4);
                sketch.add(key(number), weight, || number);
                *exact.entry(number).or_default() += weight;
            }
            assert_eq!(sketch.total(), exact.values().sum::<u64>());
            let bound = sketch.total() / COUNTERS as u64;
            assert!(sketch.most_unseen() <= bound);
            for entry in sketch.entries() {
                let count = exact[&entry.label];
                assert!((count..=count + bound).contains(&entry.count), "{entry:?}");
                assert!(entry.count - entry.error <= count, "{entry:?}");
            }
            for (number, count) in exact.iter().filter(|(_, count)| **count > bound) {
                assert!(sketch.places.contains_key(&key(*number)), "{number}: {count}");
            }
            assert_eq!(sketch.places.len(), COUNTERS);
        }
    }
}
