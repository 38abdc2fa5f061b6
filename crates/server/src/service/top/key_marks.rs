//! Marks: short hashes by which operators recognise keys that are not shown in clear.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use siphasher::sip128::{Hasher128 as _, SipHasher24};
use tidegate::Fingerprint;

/// Turns fingerprints into marks that can be shown.
///
/// A fingerprint itself must not be shown: its hash is fast and not cryptographic, so fingerprints of
/// chosen keys could reveal the secret behind them. A mark is a SipHash of a fingerprint, with a secret
/// of its own.
#[derive(Clone)]
pub(crate) struct KeyMarks(SipHasher24);

impl KeyMarks {
    /// With the secret that all instances share, a key has the same mark in all of them. Without one,
    /// marks are specific to this process.
    pub(crate) fn under(shared_secret: Option<[u8; 16]>) -> Self {
        let key = match shared_secret {
            Some(secret) => {
                let mut derived = SipHasher24::new_with_key(&secret);
                derived.write(b"tidegate: marks of keys");
                derived.finish128().as_bytes()
            }
            None => {
                // The standard library seeds these from the system's randomness.
                let word = || RandomState::new().hash_one("tidegate: marks of keys");
                (u128::from(word()) << 64 | u128::from(word())).to_le_bytes()
            }
        };
        Self(SipHasher24::new_with_key(&key))
    }

    /// The mark of a key: `#` and sixteen hexadecimal digits.
    pub(crate) fn of(&self, subject: Fingerprint) -> String {
        let mut hasher = self.0;
        hasher.write_u64(subject.high());
        hasher.write_u64(subject.low());
        format!("#{:016x}", hasher.finish128().h1)
    }
}

/// Shows nothing, since the hasher contains a secret.
impl fmt::Debug for KeyMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMarks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_22_a_mark_shows_nothing_of_the_fingerprint() {
        let subject = Fingerprint::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        let (one, other) = (KeyMarks::under(None), KeyMarks::under(None));
        assert_eq!(one.of(subject), one.of(subject));
        assert_ne!(one.of(subject), other.of(subject));
        assert_ne!(one.of(subject), format!("#{:016x}", subject.high()));
        // Instances that share a secret have the same marks.
        let shared = |byte: u8| KeyMarks::under(Some([byte; 16])).of(subject);
        assert_eq!(shared(7), shared(7));
        assert_ne!(shared(7), shared(8));
        assert_eq!(shared(7).len(), 17);
    }
}
