//! A notice board: a few small facts shared by all instances of a deployment.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tidegate_core::{Span, Timestamp};

use crate::{StoreError, StoreErrorKind};

/// Keeps notices where every instance that shares the counters sees them, even after a restart.
///
/// A board is for what operators do a few times a day: it is read as a whole, and written one
/// notice at a time. Every notice expires eventually.
pub trait SharedSettings: Send + Sync {
    /// Posts a notice, replacing any other of the same name.
    fn put_setting(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes a notice down; false if there was none.
    fn remove_setting(&self, name: &str) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// Everything on the board; `None` if it is still at version `known`.
    fn read_settings(
        &self,
        known: Option<u64>,
    ) -> impl Future<Output = Result<Option<SettingsSnapshot>, StoreError>> + Send;

    /// Signs the list of all instances that are there, for a while, and returns it in the order of
    /// their names. Instances with other secrets are on the same list, so it holds no secrets. Where
    /// no other process sees the board, this instance is alone.
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

/// Everything on a board.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsSnapshot {
    /// Changes whenever anything is posted or taken down. Zero only if the board is empty.
    pub version: u64,
    /// The notices, by name.
    pub list: Vec<SettingEntry>,
}

/// One notice on a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingEntry {
    /// Its name.
    pub name: String,
    /// What it says.
    pub text: Vec<u8>,
    /// How long it has left.
    pub left: Span,
}

impl SettingEntry {
    /// The most notices on a board.
    pub const MOST: usize = 1_000;
    /// The longest name, in bytes.
    pub const LONGEST_NAME: usize = 1_024;
    /// The longest text, in bytes.
    pub const LONGEST_TEXT: usize = 4_096;
    /// The longest time that a notice stays up.
    pub const LONGEST: Span = Span::from_days(400);

    /// Whether a board that already holds `others` notices accepts this one.
    pub fn validate(name: &str, text: &[u8], others: usize) -> Result<(), StoreError> {
        let problem = match () {
            () if name.is_empty() || name.len() > Self::LONGEST_NAME => {
                format!("a name of {} bytes: expected 1 to {}", name.len(), Self::LONGEST_NAME)
            }
            () if text.len() > Self::LONGEST_TEXT => {
                format!("{} bytes: expected at most {}", text.len(), Self::LONGEST_TEXT)
            }
            () if others >= Self::MOST => {
                format!("{others} notices are there already: expected at most {}", Self::MOST)
            }
            () => return Ok(()),
        };
        Err(StoreError::new(StoreErrorKind::Full, format!("the board: {problem}")))
    }
}

/// A shared board is a board.
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

/// The board of a single instance: it disappears with the process, as the counters do.
#[derive(Debug, Default)]
pub(crate) struct MemorySettings {
    version: u64,
    notices: BTreeMap<String, (Timestamp, Vec<u8>)>,
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
        let others = self.notices.len() - usize::from(self.notices.contains_key(name));
        SettingEntry::validate(name, text, others)?;
        self.notices.insert(name.to_owned(), (until, text.to_vec()));
        self.version += 1;
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let was_there = self.notices.remove(name).is_some();
        self.version += u64::from(was_there);
        was_there
    }

    pub(crate) fn read(&mut self, known: Option<u64>, now: Timestamp) -> Option<SettingsSnapshot> {
        self.sweep(now);
        let list = self.notices.iter().map(|(name, (until, text))| SettingEntry {
            name: name.clone(),
            text: text.clone(),
            left: until.since(now),
        });
        let is_new = known != Some(self.version);
        is_new.then(|| SettingsSnapshot { version: self.version, list: list.collect() })
    }

    fn sweep(&mut self, now: Timestamp) {
        let before = self.notices.len();
        self.notices.retain(|_, (until, _)| now < *until);
        self.version += u64::from(self.notices.len() < before);
    }
}
