//! The stored form of shared settings: a version, then each entry, with a length before each text.

use tidegate_core::Span;
use tidegate_store::{SettingEntry, SettingsSnapshot, StoreError, StoreErrorKind};

/// The settings of a key. Times are Redis's, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SettingsDocument {
    version: u64,
    entries: Vec<SettingsEntry>,
}

/// One setting, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SettingsEntry {
    name: String,
    text: Vec<u8>,
    until: u64,
}

impl SettingsDocument {
    pub(super) fn put(
        &mut self,
        name: &str,
        text: &[u8],
        lasts: Span,
        now: u64,
    ) -> Result<(), StoreError> {
        self.remove(name);
        SettingEntry::validate(name, text, self.entries.len())?;
        let until = now.saturating_add(lasts.as_millis_ceil());
        let at = self.entries.partition_point(|entry| &*entry.name < name);
        self.entries
            .insert(at, SettingsEntry { name: name.to_owned(), text: text.to_vec(), until });
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.name != name);
        self.entries.len() < before
    }

    pub(super) fn sweep(&mut self, now: u64) {
        self.entries.retain(|entry| now < entry.until);
    }

    /// Any version other than the one before. It is random rather than counted, since a number that
    /// was used once may come back after the key has expired.
    pub(super) fn renew(&mut self) {
        self.version = if self.entries.is_empty() { 0 } else { fastrand::u64(1..) };
    }

    /// The version as the scripts compare it: empty if there are no entries.
    pub(super) fn version_bytes(&self) -> Vec<u8> {
        if self.version == 0 { Vec::new() } else { self.version.to_be_bytes().to_vec() }
    }

    /// How long the key has to live.
    pub(super) fn lasts_millis(&self, now: u64) -> i64 {
        let last = self.entries.iter().map(|entry| entry.until).max().unwrap_or(0);
        i64::try_from(last.saturating_sub(now).max(1)).unwrap_or(i64::MAX)
    }

    pub(super) fn snapshot(self, now: u64) -> SettingsSnapshot {
        let left = |until: u64| Span::from_millis(until.saturating_sub(now));
        let alive = self.entries.into_iter().filter(|entry| now < entry.until);
        let list = alive.map(|entry| SettingEntry {
            left: left(entry.until),
            name: entry.name,
            text: entry.text,
        });
        SettingsSnapshot { version: self.version, list: list.collect() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.version_bytes();
        for entry in &self.entries {
            bytes.extend(entry.until.to_be_bytes());
            for part in [entry.name.as_bytes(), &entry.text] {
                // Both are far below 64 KiB: `SettingEntry::validate` ensures that.
                bytes.extend(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
                bytes.extend(part);
            }
        }
        bytes
    }

    /// Never panics, whatever the bytes are. A value that is not ours is an error.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Self::read(bytes).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::WrongType,
                "shared settings: the key holds a value that Tidegate did not write",
            )
        })
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        // A document without entries has no version, and no bytes at all.
        let version = number(&mut bytes).filter(|version| *version != 0)?;
        let mut document = Self { version, entries: Vec::new() };
        while !bytes.is_empty() && document.entries.len() < SettingEntry::MOST {
            let until = number(&mut bytes)?;
            let name = String::from_utf8(part(&mut bytes)?.to_vec()).ok()?;
            document.entries.push(SettingsEntry { until, name, text: part(&mut bytes)?.to_vec() });
        }
        Some(document)
    }
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_be_bytes(*number))
}

fn part<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> SettingsDocument {
        let mut document = SettingsDocument::default();
        document.put("b", b"two", Span::from_secs(20), 1_000).unwrap();
        document.put("a", b"one", Span::from_secs(10), 1_000).unwrap();
        document.renew();
        document
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let document = document();
        assert_eq!(SettingsDocument::decode(&document.encode()).unwrap(), document);
        assert_eq!(SettingsDocument::decode(b"").unwrap(), SettingsDocument::default());
        assert_eq!(document.lasts_millis(1_000), 20_000);
    }

    #[test]
    fn what_is_cut_off_or_not_ours_is_an_error_and_no_panic() {
        let bytes = document().encode();
        for end in 1..bytes.len() {
            let read = SettingsDocument::decode(&bytes[..end]);
            assert!(
                read.is_err() || read.is_ok_and(|document| document.entries.len() < 2),
                "{end}"
            );
        }
        let entry = bytes.get(8..).unwrap_or_default();
        assert!(
            SettingsDocument::decode(&[&[0; 8], entry].concat()).is_err(),
            "a document without a version"
        );
        for seed in 0..2_000_u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let noise: Vec<u8> = (0..random.usize(1..60)).map(|_| random.u8(..)).collect();
            let _ = SettingsDocument::decode(&noise);
        }
    }

    #[test]
    fn empty_settings_have_no_version_and_others_have_one() {
        let mut document = document();
        assert_ne!(document.version, 0);
        document.sweep(21_000);
        document.renew();
        assert_eq!((document.version, document.encode().len()), (0, 0));
    }
}
