//! Counts distinct items in bounded memory.

use std::collections::HashSet;

use foldhash::fast::FixedState;

/// Counts distinct hashes: exactly up to 65,536, then within about 1 % (HyperLogLog).
///
/// ```
/// use tidegate_sim::sketch::DistinctSketch;
///
/// let mut seen = DistinctSketch::default();
/// for hash in [1, 2, 2, 1] {
///     seen.add(hash);
/// }
/// assert_eq!((seen.count(), seen.is_exact()), (2, true));
/// ```
#[derive(Clone, Debug)]
pub struct DistinctSketch(DistinctState);

/// An exact set while it is small, then registers.
#[derive(Clone, Debug)]
enum DistinctState {
    Exact(HashSet<u64, FixedState>),
    /// For each of many groups of hashes, the longest run of leading zeros.
    Estimate(Box<[u8]>),
}

impl Default for DistinctSketch {
    fn default() -> Self {
        Self(DistinctState::Exact(HashSet::default()))
    }
}

impl DistinctSketch {
    /// Records a hash, whose bits must be well mixed.
    pub fn add(&mut self, hash: u64) {
        match &mut self.0 {
            DistinctState::Exact(seen) => {
                seen.insert(hash);
                if seen.len() > MOST_EXACT {
                    let mut registers = vec![0; REGISTERS].into_boxed_slice();
                    seen.iter().for_each(|hash| update_register(&mut registers, *hash));
                    self.0 = DistinctState::Estimate(registers);
                }
            }
            DistinctState::Estimate(registers) => update_register(registers, hash),
        }
    }

    /// How many distinct hashes there were.
    pub fn count(&self) -> u64 {
        match &self.0 {
            DistinctState::Exact(seen) => seen.len() as u64,
            DistinctState::Estimate(registers) => estimate(registers),
        }
    }

    /// Whether the count is exact.
    pub const fn is_exact(&self) -> bool {
        matches!(self.0, DistinctState::Exact(_))
    }
}

fn update_register(registers: &mut [u8], hash: u64) {
    let group = (hash >> (64 - GROUP_BITS)) as usize;
    let run = ((hash << GROUP_BITS) | 1 << (GROUP_BITS - 1)).leading_zeros() as u8 + 1;
    if let Some(longest) = registers.get_mut(group) {
        *longest = (*longest).max(run);
    }
}

/// The formula of Flajolet and others for large counts; small ones never get here.
fn estimate(registers: &[u8]) -> u64 {
    let groups = registers.len() as f64;
    let harmonic: f64 = registers.iter().map(|run| (-f64::from(*run)).exp2()).sum();
    let bias = 0.7213 / (1.0 + 1.079 / groups);
    (bias * groups * groups / harmonic).round() as u64
}

const MOST_EXACT: usize = 65_536;
const GROUP_BITS: u32 = 14;
const REGISTERS: usize = 1 << GROUP_BITS;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRandom;

    #[test]
    fn many_are_counted_within_two_percent() {
        let (mut seen, mut random) = (DistinctSketch::default(), SeededRandom::new(5));
        for count in 1..=1_000_000_u64 {
            seen.add(random.bits());
            if [10, 65_536, 65_537, 100_000, 1_000_000].contains(&count) {
                let error = seen.count().abs_diff(count);
                assert!(error * 50 <= count, "{count}: {}", seen.count());
                assert_eq!(seen.is_exact(), count <= 65_536);
            }
        }
        let before = seen.count();
        let mut again = SeededRandom::new(5);
        (0..1_000_000).for_each(|_| seen.add(again.bits()));
        assert_eq!(seen.count(), before, "hashes that were seen before are not new");
    }
}
