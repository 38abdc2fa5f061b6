//! Pseudo-random numbers that are the same in every run, on every machine.

/// The splitmix64 generator. Our own, so that a new version of a library does not change what is printed
/// or generated. Not for secrets.
///
/// ```
/// use tidegate_core::SplitMix;
///
/// let (mut one, mut same) = (SplitMix::new(7), SplitMix::new(7));
/// assert_eq!(one.bits(), same.bits());
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// A sequence of its own for each seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of the `n`th of many that share a seed. It does not depend on the others, so
    /// they can be drawn in any order.
    pub const fn nth(seed: u64, n: u64) -> Self {
        Self(mixed(seed ^ mixed(n.wrapping_add(GAMMA))))
    }

    /// The next number, of 64 bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mixed(self.0)
    }
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
