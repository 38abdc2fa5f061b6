//! Helpers for the tests of a full store.

use tidegate_core::Fingerprint;

/// Spread like a hash.
pub(crate) fn fingerprint(n: u64) -> Fingerprint {
    let mix = |n: u64| {
        let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    };
    Fingerprint::new(mix(n.wrapping_add(0x9e37_79b9)), mix(n.wrapping_add(0x1234_5678_9abc)))
}
