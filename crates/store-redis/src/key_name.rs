//! The names of keys in Redis.

use std::fmt;

use smallvec::SmallVec;
use tidegate_core::Charge;

/// A key's name: `{abc}s` and eight bytes, after the deployment's prefix.
///
/// The tag in braces comes from the subject, so that all limits of one subject share a slot of a
/// Cluster; there are 2^18 tags, so slots fill evenly. A letter for the algorithm and the version
/// of its schema follows, so that a new version never reads what it does not understand. The rest
/// comes from the counter's fingerprint: with the tag, 82 bits. Among a billion keys, the chance
/// that any two are the same is one in ten million.
///
/// A name holds no user text, so nobody can choose a slot or reach another caller's key. And it is
/// 14 bytes long, which is what fits into a 16-byte block in Redis: with a million keys, that
/// matters.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeyName(KeyBytes);

/// Our own names fit inline, unless a prefix makes them longer.
type KeyBytes = SmallVec<[u8; 22]>;

const TAG: u32 = 3;
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";

impl KeyName {
    pub(crate) fn new(prefix: &[u8], charge: &Charge<'_>) -> Self {
        let mut name = KeyBytes::from_slice(prefix);
        name.push(b'{');
        write_digits(&mut name, charge.subject().low(), TAG);
        name.push(b'}');
        name.push(charge.rule().limit.kind().letter());
        name.extend_from_slice(&charge.counter().high().to_be_bytes());
        Self(name)
    }

    /// The name of the shared settings or of the instance list, in the same form.
    pub(crate) fn of_settings(prefix: &[u8], tag: u64, rest: u64) -> Self {
        let mut name = KeyBytes::from_slice(prefix);
        name.push(b'{');
        write_digits(&mut name, tag, TAG);
        name.extend_from_slice(b"}b");
        name.extend_from_slice(&rest.to_be_bytes());
        Self(name)
    }

    /// A name in another limiter's format.
    pub(crate) fn given(name: Vec<u8>) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The slot in which a Cluster keeps the key.
    pub(crate) fn slot(&self) -> u16 {
        crate::slot::of_key(&self.0)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.escape_ascii().to_string())
    }
}

/// The lowest digits of a number, in base 64.
fn write_digits(name: &mut KeyBytes, number: u64, digits: u32) {
    let digit = |place| ALPHABET[(number >> (6 * place)) as usize % 64];
    name.extend((0..digits).map(digit));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};
    use tidegate_core::{Cost, Fingerprint, Limit, Rule};

    fn name(subject: Fingerprint, limit: &str, id: u64) -> KeyName {
        let limit: Limit = limit.parse().unwrap();
        let id = Fingerprint::new(id.wrapping_mul(0x9e37_79b9_7f4a_7c15), id);
        let rule = Rule { id, limit, enforced: true, staggered: false };
        KeyName::new(b"", &Charge::new(subject, Cost::ONE, &rule))
    }

    /// Spreads small numbers over the whole range, as a hash would.
    fn subject(n: u64) -> Fingerprint {
        let mixed = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Fingerprint::new(mixed ^ mixed >> 29, mixed.rotate_left(17) ^ mixed >> 31)
    }

    #[test]
    fn names_are_short_and_their_tag_is_ours() {
        for n in 0..1_000 {
            let name = name(subject(n), "5/minute", n);
            assert_eq!(name.as_bytes().len(), 14);
            let braces = name.0.iter().take(6).enumerate().filter(|(_, byte)| b"{}".contains(byte));
            assert_eq!(braces.map(|(place, _)| place).collect::<Vec<_>>(), [0, 4]);
        }
    }

    #[test]
    fn limits_of_one_subject_share_a_slot_and_nothing_else() {
        let names: HashSet<_> = (0..100).map(|id| name(subject(7), "5/minute", id)).collect();
        assert_eq!(names.len(), 100);
        assert_eq!(names.iter().map(KeyName::slot).collect::<HashSet<_>>().len(), 1);
    }

    #[test]
    fn subjects_have_names_of_their_own_and_spread_over_the_slots() {
        let names: HashSet<_> = (0..100_000).map(|n| name(subject(n), "5/minute", 1)).collect();
        assert_eq!(names.len(), 100_000);
        let mut sixteenths = HashMap::<u16, u32>::new();
        names.iter().for_each(|name| *sixteenths.entry(name.slot() / 1024).or_default() += 1);
        assert!(sixteenths.values().all(|n| (5_500..7_000).contains(n)), "{sixteenths:?}");
    }

    #[test]
    fn the_algorithm_is_in_the_name() {
        let [window, bucket] =
            ["5/minute", "5/minute burst 5"].map(|limit| name(subject(7), limit, 1));
        assert_eq!((window.as_bytes()[5], bucket.as_bytes()[5]), (b's', b'v'));
    }
}
