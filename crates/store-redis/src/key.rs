//! What a counter is called in Redis.

use std::fmt;

use tidegate_core::{AlgorithmKind, Charge, Fingerprint};

/// A key's name: `{abc}s10123456789ABCDE`, after the deployment's prefix.
///
/// The tag in braces comes from the subject, so that all limits of one subject share a slot of a
/// Cluster; there are 2^18 tags, so slots fill evenly. A letter for the algorithm and the version of
/// its schema follow, so that no change of ours ever reads what it does not understand. The rest
/// is the counter's fingerprint. No user text is in a name, so nobody can choose a slot or reach
/// another's key; and it is 22 bytes long, which is what fits into a block of 24 in Redis.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct KeyName(Vec<u8>);

/// The schema of all scripts. A change to what they store changes this.
const SCHEMA: u8 = b'1';

const TAG: u32 = 3;
const COUNTER: u32 = 15;
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz-";

impl KeyName {
    pub(crate) fn new(prefix: &[u8], charge: &Charge<'_>) -> Self {
        let mut name = Vec::with_capacity(prefix.len() + 22);
        name.extend_from_slice(prefix);
        name.push(b'{');
        write_digits(&mut name, u128::from(charge.subject().low()), TAG);
        name.push(b'}');
        name.extend([letter(charge.rule().limit.kind()), SCHEMA]);
        write_digits(&mut name, number(charge.counter()), COUNTER);
        Self(name)
    }

    /// As another limiter calls it.
    pub(crate) const fn given(name: Vec<u8>) -> Self {
        Self(name)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where a Cluster keeps it.
    pub(crate) fn slot(&self) -> u16 {
        crate::slot::of_key(&self.0)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.escape_ascii().to_string())
    }
}

fn number(counter: Fingerprint) -> u128 {
    u128::from(counter.high()) | u128::from(counter.low()) << 64
}

/// The lowest digits of a number, in base 64.
fn write_digits(name: &mut Vec<u8>, number: u128, digits: u32) {
    let digit = |place| ALPHABET[(number >> (6 * place)) as usize % 64];
    name.extend((0..digits).map(digit));
}

const fn letter(kind: AlgorithmKind) -> u8 {
    match kind {
        AlgorithmKind::FixedWindow => b'f',
        AlgorithmKind::SlidingWindow => b's',
        AlgorithmKind::SlidingLog => b'l',
        AlgorithmKind::TokenBucket => b't',
        // A new algorithm must say here how its keys are told apart.
        _ => b'?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};
    use tidegate_core::{Cost, Limit, Rule};

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
    fn names_are_short_and_their_only_braces_are_ours() {
        for n in 0..1_000 {
            let name = name(subject(n), "5/minute", n);
            assert_eq!(name.as_bytes().len(), 22);
            let text = String::from_utf8(name.0).unwrap();
            assert_eq!((text.find('{'), text.find('}')), (Some(0), Some(4)));
            assert_eq!((text.matches('{').count(), text.matches('}').count()), (1, 1));
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
        assert_eq!((&window.as_bytes()[5..7], &bucket.as_bytes()[5..7]), (&b"s1"[..], &b"t1"[..]));
    }
}
