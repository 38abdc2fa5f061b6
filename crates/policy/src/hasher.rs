//! Hashes keys into fingerprints under a secret.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use siphasher::sip128::{Hasher128, SipHasher13};
use tidegate_core::Fingerprint;

use crate::Key;

/// Turns keys into fingerprints under a secret. Without the secret, nobody can find two keys that
/// share a counter.
#[derive(Clone)]
pub struct KeyHasher(KeyHasherKind);

#[derive(Clone)]
enum KeyHasherKind {
    /// Fast, but valid for this process only: the result can differ between versions and machines.
    Local { high: HasherSeed, low: HasherSeed },
    /// The same on every machine: SipHash with 128 bits of output.
    Shared(SipHasher13),
}

#[derive(Clone)]
struct HasherSeed {
    hasher: u64,
    shared: SharedSeed,
}

impl KeyHasher {
    /// Creates a hasher with a new secret from the operating system's randomness.
    pub fn random() -> Self {
        Self(KeyHasherKind::Local { high: HasherSeed::random(), low: HasherSeed::random() })
    }

    /// Creates a hasher with a shared secret: every process that has it finds the same counters, on
    /// any machine.
    pub fn shared(secret: [u8; 16]) -> Self {
        Self(KeyHasherKind::Shared(SipHasher13::new_with_key(&secret)))
    }

    /// The hasher with this process's secret. All users in the process share it, so that anything
    /// created again (such as a policy after a reload) finds its counters.
    pub fn of_this_process() -> Self {
        static HASHER: OnceLock<KeyHasher> = OnceLock::new();
        HASHER.get_or_init(Self::random).clone()
    }

    /// A hasher under the same secret whose fingerprints are unrelated to this one's.
    #[must_use]
    pub(crate) fn unrelated(&self) -> Self {
        let inverted = |seed: &HasherSeed| HasherSeed { hasher: !seed.hasher, ..seed.clone() };
        Self(match &self.0 {
            KeyHasherKind::Local { high, low } => {
                KeyHasherKind::Local { high: inverted(high), low: inverted(low) }
            }
            KeyHasherKind::Shared(hasher) => {
                let (first, second) = hasher.keys();
                KeyHasherKind::Shared(SipHasher13::new_with_keys(!first, !second))
            }
        })
    }

    /// The fingerprint of a key: 128 bits, however long the key is.
    #[inline]
    pub fn fingerprint<K: Key + ?Sized>(&self, key: &K) -> Fingerprint {
        if let Some(known) = key.known() {
            return known;
        }
        match &self.0 {
            KeyHasherKind::Local { high, low } => {
                let (mut high, mut low) = (high.hasher(), low.hasher());
                let mut previous = None;
                key.each_part(|part| {
                    // The length of the previous part separates the two.
                    if let Some(length) = previous.replace(part.len()) {
                        high.write_usize(length);
                        low.write_usize(length);
                    }
                    high.write(part);
                    low.write(part);
                });
                Fingerprint::new(high.finish(), low.finish())
            }
            KeyHasherKind::Shared(hasher) => {
                // A stream of bytes that is unambiguous when read from its end: the number of parts
                // is last, and each part is followed by its length.
                let (mut hasher, mut parts) = (*hasher, 0_u64);
                key.each_part(|part| {
                    hasher.write(part);
                    hasher.write(&(part.len() as u64).to_le_bytes());
                    parts += 1;
                });
                hasher.write(&parts.to_le_bytes());
                let hash = hasher.finish128();
                Fingerprint::new(hash.h1, hash.h2)
            }
        }
    }
}

/// Shows nothing: the secret stays secret.
impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyHasher").finish_non_exhaustive()
    }
}

impl HasherSeed {
    fn random() -> Self {
        // Each `RandomState` has its own keys, from the operating system's randomness.
        let random = || RandomState::new().hash_one(0_u8);
        Self { hasher: random(), shared: SharedSeed::from_u64(random()) }
    }

    #[inline]
    fn hasher(&self) -> FoldHasher<'_> {
        FoldHasher::with_seed(self.hasher, &self.shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        // A tiny alphabet, so that concatenations of different parts coincide all the time.
        let part = prop::collection::vec(prop::sample::select(vec![0, b'a', b':']), 0..4);
        prop::collection::vec(part, 0..4)
    }

    /// Parts without the length that a slice key begins with.
    struct RawParts<'a>(&'a [Vec<u8>]);

    impl Key for RawParts<'_> {
        fn each_part(&self, mut part: impl FnMut(&[u8])) {
            self.0.iter().for_each(|bytes| part(bytes));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// Law 10: different keys never share a counter.
        #[test]
        fn encoding_is_injective(a in parts(), b in parts()) {
            for hasher in [KeyHasher::random(), KeyHasher::shared([7; 16])] {
                let prints = [&a, &b].map(|parts| hasher.fingerprint(&RawParts(parts)));
                prop_assert_eq!(a == b, prints[0] == prints[1]);
            }
        }

        /// The same for keys made of lists.
        #[test]
        fn nesting_is_injective(a in (parts(), parts()), b in (parts(), parts())) {
            let hasher = KeyHasher::random();
            let print = |(x, y): &(Vec<_>, Vec<_>)| hasher.fingerprint(&(&x[..], &y[..]));
            prop_assert_eq!(a == b, print(&a) == print(&b));
        }
    }

    #[test]
    fn a_key_that_contains_lengths_is_no_list() {
        let hasher = KeyHasher::shared([7; 16]);
        let lengths = [b"a".as_slice(), &1_u64.to_le_bytes(), b"b"].concat();
        assert_ne!(hasher.fingerprint(&lengths), hasher.fingerprint(&("a", "b")));
    }

    #[test]
    fn a_shared_secret_gives_the_same_fingerprints_for_ever() {
        // Counters in Redis are found by these fingerprints: a change here loses all of them.
        let print = KeyHasher::shared(*b"sixteen bytes it").fingerprint(&("alice", 7_u64));
        assert_eq!(format!("{print:?}"), "a35bd5bbddc2b444f002f7bab28e4e17");
        let others = KeyHasher::shared(*b"sixteen bytes ok").fingerprint(&("alice", 7_u64));
        assert_ne!(print, others);
    }

    #[test]
    fn secrets_differ() {
        let [one, two] = [KeyHasher::random(), KeyHasher::random()];
        assert_ne!(one.fingerprint("alice"), two.fingerprint("alice"));
        assert_ne!(one.fingerprint("alice"), one.unrelated().fingerprint("alice"));
        let [one, two] = [KeyHasher::of_this_process(), KeyHasher::of_this_process()];
        assert_eq!(one.fingerprint("alice"), two.fingerprint("alice"));
        assert!(!format!("{one:?}").contains("hasher:"));
    }

    #[test]
    fn both_halves_are_spread_evenly() {
        // Shards use the lower half, slots the upper one: keys that differ in one digit must not
        // collide in either. 64 are expected in each; the chance to be this far off is 1 in 10^9.
        let hasher = KeyHasher::random();
        let prints = (0..4_096_u64).map(|n| hasher.fingerprint(format!("user:{n}").as_str()));
        let (mut high, mut low) = ([0; 64], [0; 64]);
        for print in prints {
            high[(print.high() >> 58) as usize] += 1;
            low[(print.low() & 63) as usize] += 1;
        }
        for count in high.into_iter().chain(low) {
            assert!((16..=120).contains(&count), "{count}");
        }
    }
}
