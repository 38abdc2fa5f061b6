//! Shared settings: small values that all instances of a deployment see.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::{Span, Timestamp};

use crate::{StoreError, StoreErrorKind};

/// Keeps settings where every instance that shares the counters sees them, even after a restart.
///
/// They are for operations that happen a few times a day: settings are read as a whole, and written one
/// at a time. Every setting expires eventually.
///
/// A server keeps operators' changes there, and the list of its instances. To follow changes cheaply, remember
/// the version of the last snapshot and pass it to [`read_settings`](Self::read_settings): while nothing
/// has changed, the answer is `None`.
///
/// # Errors
///
/// [`StoreError`] if the store does not answer, and one of kind [`Full`](StoreErrorKind::Full) for a setting
/// that is too large or one too many; see [`SettingEntry::validate`].
pub trait SharedSettings: Send + Sync {
    /// Writes a setting, replacing any other of the same name.
    fn put_setting(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes a setting; returns false if it did not exist.
    fn remove_setting(&self, name: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Reads all settings; `None` if they are still at version `known`.
    fn read_settings(
        &self,
        known: Option<u64>,
    ) -> impl Future<Output = Result<Option<SettingsSnapshot>, StoreError>> + Send;

    /// Registers this instance for a while, and returns all registered instances by name. Instances
    /// with other secrets are on the same list, so `text` must not contain secrets. If no other process
    /// sees the settings, the list has only this instance.
    fn register_instance(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> impl Future<Output = Result<Vec<SettingEntry>, StoreError>> + Send {
        let this = SettingEntry { name: name.to_owned(), text: text.to_vec(), left: lasts };
        async { Ok(vec![this]) }
    }
}

/// All settings at one version.
///
/// The default is an empty one, as a deployment has before anything was written.
///
/// ```
/// use tidegate_core::Span;
/// use tidegate_store::{MemoryStore, SharedSettings};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tidegate_store::StoreError> {
/// let store = MemoryStore::new();
/// store.put_setting("mode:api", b"shadow", Span::from_secs(60)).await?;
/// let snapshot = store.read_settings(None).await?.unwrap_or_default();
/// assert_eq!(snapshot.list[0].text, b"shadow");
/// // Nothing has changed since.
/// assert!(store.read_settings(Some(snapshot.version)).await?.is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsSnapshot {
    /// Changes whenever a setting is written or removed. Zero only if there are no settings.
    pub version: u64,
    /// The settings, by name.
    pub list: Vec<SettingEntry>,
}

/// One setting.
///
/// Stores do not interpret the value. It is bytes, since it may come from a newer version of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingEntry {
    /// Its name.
    pub name: String,
    /// Its value.
    pub text: Vec<u8>,
    /// The time until it expires.
    pub left: Span,
}

impl SettingEntry {
    /// The most settings.
    pub const MOST: usize = 1_000;
    /// The longest name, in bytes.
    pub const LONGEST_NAME: usize = 1_024;
    /// The longest text, in bytes.
    pub const LONGEST_TEXT: usize = 4_096;
    /// The longest time that a setting lasts.
    pub const LONGEST: Span = Span::from_days(400);

    /// Whether this setting is accepted beside `others` existing ones.
    ///
    /// Every store calls it before it writes, so that all stores accept the same settings.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] of kind [`Full`](StoreErrorKind::Full) that shows the size and the bound.
    ///
    /// ```
    /// use tidegate_store::SettingEntry;
    ///
    /// assert!(SettingEntry::validate("override:alice", b"{}", 7).is_ok());
    /// assert!(SettingEntry::validate("", b"{}", 7).is_err());
    /// ```
    pub fn validate(name: &str, text: &[u8], others: usize) -> Result<(), StoreError> {
        let problem = match () {
            () if name.is_empty() || name.len() > Self::LONGEST_NAME => {
                format!("a name of {} bytes: expected 1 to {}", name.len(), Self::LONGEST_NAME)
            }
            () if text.len() > Self::LONGEST_TEXT => {
                format!("{} bytes: expected at most {}", text.len(), Self::LONGEST_TEXT)
            }
            () if others >= Self::MOST => {
                format!("{others} settings exist already: expected at most {}", Self::MOST)
            }
            () => return Ok(()),
        };
        Err(StoreError::new(StoreErrorKind::Full, format!("shared settings: {problem}")))
    }
}

impl<B: SharedSettings + ?Sized> SharedSettings for Arc<B> {
    async fn put_setting(&self, name: &str, text: &[u8], lasts: Span) -> Result<(), StoreError> {
        (**self).put_setting(name, text, lasts).await
    }

    async fn remove_setting(&self, name: &str) -> Result<bool, StoreError> {
        (**self).remove_setting(name).await
    }

    async fn read_settings(
        &self,
        known: Option<u64>,
    ) -> Result<Option<SettingsSnapshot>, StoreError> {
        (**self).read_settings(known).await
    }

    async fn register_instance(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> Result<Vec<SettingEntry>, StoreError> {
        (**self).register_instance(name, text, lasts).await
    }
}

/// The settings of a single instance: they disappear with the process, as the counters do.
#[derive(Debug, Default)]
pub(crate) struct MemorySettings {
    version: u64,
    entries: BTreeMap<String, (Timestamp, Vec<u8>)>,
}

impl MemorySettings {
    pub(crate) fn put(
        &mut self,
        name: &str,
        text: &[u8],
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.sweep(now);
        let others = self.entries.len() - usize::from(self.entries.contains_key(name));
        SettingEntry::validate(name, text, others)?;
        self.entries.insert(name.to_owned(), (until, text.to_vec()));
        self.version += 1;
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let was_there = self.entries.remove(name).is_some();
        self.version += u64::from(was_there);
        was_there
    }

    pub(crate) fn read(&mut self, known: Option<u64>, now: Timestamp) -> Option<SettingsSnapshot> {
        self.sweep(now);
        let list = self.entries.iter().map(|(name, (until, text))| SettingEntry {
            name: name.clone(),
            text: text.clone(),
            left: until.since(now),
        });
        let is_new = known != Some(self.version);
        is_new.then(|| SettingsSnapshot { version: self.version, list: list.collect() })
    }

    fn sweep(&mut self, now: Timestamp) {
        let before = self.entries.len();
        self.entries.retain(|_, (until, _)| now < *until);
        self.version += u64::from(self.entries.len() < before);
    }
}
