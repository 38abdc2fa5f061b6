//! Pseudo-random numbers that are the same in every run.

use tidegate_core::SplitMix;

/// Numbers by [`SplitMix`], and what simulations draw from them.
///
/// ```
/// use tidegate_sim::SeededRandom;
///
/// let (mut one, mut same) = (SeededRandom::new(7), SeededRandom::new(7));
/// assert_eq!(one.below(100), same.below(100));
/// ```
#[derive(Clone, Debug)]
pub struct SeededRandom(SplitMix);

impl SeededRandom {
    /// A sequence of its own for each seed.
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// The sequence of the `n`th of many that share a seed. It does not depend on the others, so
    /// they can be drawn in any order.
    pub const fn nth(seed: u64, n: u64) -> Self {
        Self(SplitMix::nth(seed, n))
    }

    /// All 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 up to but not including 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to but not including `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// The time until a memoryless event that happens once in `mean`, on average.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // `unit` is never 1, so the logarithm is finite.
        -(1.0 - self.unit()).ln() * mean
    }
}

/// Ranks by Zipf's law: the `n`th is `n` to the power of the exponent times rarer than the first.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The cumulative weights.
    sums: Vec<f64>,
}

impl Zipf {
    /// Over this many ranks; at least one.
    pub fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=ranks.max(1)).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self { sums: sums.collect() }
    }

    /// A rank, from 0.
    pub fn pick(&self, random: &mut SeededRandom) -> usize {
        if self.sums.len() == 1 {
            return 0;
        }
        let at = random.unit() * self.total();
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len().saturating_sub(1))
    }

    /// The sum of all weights, where the first rank's is one.
    pub fn total(&self) -> f64 {
        self.sums.last().copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_sequence_and_others_are_others() {
        let draw = |mut random: SeededRandom| (0..4).map(|_| random.bits()).collect::<Vec<_>>();
        assert_eq!(draw(SeededRandom::nth(1, 2)), draw(SeededRandom::nth(1, 2)));
        assert_ne!(draw(SeededRandom::nth(1, 2)), draw(SeededRandom::nth(1, 3)));
        assert_ne!(draw(SeededRandom::nth(1, 2)), draw(SeededRandom::nth(2, 2)));
        // Reference values of splitmix64 for the seed 0.
        assert_eq!(draw(SeededRandom::new(0))[..2], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn waits_have_the_mean_that_was_asked_for() {
        let mut random = SeededRandom::new(3);
        let mean = (0..100_000).map(|_| random.exponential(5.0)).sum::<f64>() / 100_000.0;
        assert!((4.9..5.1).contains(&mean), "{mean}");
    }

    #[test]
    fn the_second_of_zipf_comes_half_as_often() {
        let (zipf, mut random) = (Zipf::new(1_000, 1.0), SeededRandom::new(3));
        let mut counts = [0_u32; 1_000];
        (0..100_000).for_each(|_| counts[zipf.pick(&mut random)] += 1);
        let ratio = f64::from(counts[0]) / f64::from(counts[1]);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
        assert_eq!(Zipf::new(0, 1.0).pick(&mut random), 0);
    }
}
