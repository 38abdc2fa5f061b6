//! Keys that own their parts, and outlive the values that they were made from.

use std::fmt;

use smallvec::SmallVec;

use crate::Key;

/// A key that owns its parts. It is the same key as the one that it was made from.
///
/// ```
/// use tidegate::{OwnedKey, Policy};
///
/// let policy = Policy::new("api", ["5/minute".parse()?])?;
/// let key = OwnedKey::of(&("tenant", 7_u64));
/// assert_eq!(policy.fingerprint(&key), policy.fingerprint(&("tenant", 7_u64)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    bytes: SmallVec<[u8; 64]>,
    /// Where each part ends.
    ends: SmallVec<[usize; 6]>,
}

impl OwnedKey {
    /// Copies the parts of `key`.
    pub fn of<K: Key + ?Sized>(key: &K) -> Self {
        let mut owned = Self::default();
        owned.push(key);
        owned
    }

    /// Adds the parts of `key`.
    pub fn push<K: Key + ?Sized>(&mut self, key: &K) {
        key.each_part(|part| {
            self.bytes.extend_from_slice(part);
            self.ends.push(self.bytes.len());
        });
    }

    /// Adds the parts of `key` as people write them.
    #[doc(hidden)]
    pub fn push_text<K: Key + ?Sized>(&mut self, key: &K) {
        key.each_text(|part| self.push(part));
    }

    /// All parts as one slice of bytes, for uses that need a value rather than a key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Key for OwnedKey {
    #[inline]
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        let mut start = 0;
        for end in &self.ends {
            part(self.bytes.get(start..*end).unwrap_or_default());
            start = *end;
        }
    }
}

/// Shows the number of parts, not their content: keys do not belong in logs.
impl fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedKey").field("parts", &self.ends.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyHasher;

    #[test]
    fn parts_of_a_key_are_kept_apart() {
        let hasher = KeyHasher::random();
        let print = |key: &OwnedKey| hasher.fingerprint(key);
        assert_ne!(print(&OwnedKey::of(&("a", "bc"))), print(&OwnedKey::of(&("ab", "c"))));
        let mut key = OwnedKey::of("a");
        key.push("bc");
        assert_eq!(print(&key), hasher.fingerprint(&("a", "bc")));
        assert_eq!(key.as_bytes(), b"abc");
        assert_eq!(format!("{key:?}"), "OwnedKey { parts: 2, .. }");
    }
}
