//! The shared settings in Redis: one key, written by compare and swap.

mod document;

use std::time::Duration;

use siphasher::sip128::{Hasher128, SipHasher24};
use tidegate_core::Span;
use tidegate_store::{SettingEntry, SettingsSnapshot, SharedSettings, StoreError, StoreErrorKind};

use self::document::SettingsDocument;
use crate::RedisStore;
use crate::key_name::KeyName;
use crate::link::{RedisReply, ScriptCall};
use crate::script::{BOARD_CHANGE, BOARD_LOOK};

/// The key of the settings. It looks like a counter's, so that a Redis user with access to counters
/// has access to it, but with a letter that no algorithm has. Deployments with different secrets have
/// different settings.
pub(crate) fn name(prefix: &[u8], secret: &[u8; 16]) -> KeyName {
    named(prefix, secret, b"board")
}

/// The key of the list of instances, which is stored like the settings. It is the same for all
/// secrets, so that instances that should have the same secret can notice that they have not.
pub(crate) fn name_of_list(prefix: &[u8]) -> KeyName {
    named(prefix, &[0; 16], b"instances")
}

fn named(prefix: &[u8], secret: &[u8; 16], what: &[u8]) -> KeyName {
    use std::hash::Hasher as _;
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(what);
    let print = hasher.finish128();
    KeyName::of_settings(prefix, print.h1, print.h2)
}

/// A document that can be decoded is the same after it was encoded and decoded again.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Ok(document) = SettingsDocument::decode(bytes) {
        assert_eq!(SettingsDocument::decode(&document.encode()).ok(), Some(document));
    }
}

impl SharedSettings for RedisStore {
    async fn put_setting(&self, name: &str, text: &[u8], lasts: Span) -> Result<(), StoreError> {
        let lasts = lasts.min(SettingEntry::LONGEST);
        self.change(self.settings_key(), |document, now| document.put(name, text, lasts, now)).await
    }

    async fn remove_setting(&self, name: &str) -> Result<bool, StoreError> {
        self.change(self.settings_key(), |document, _| Ok(document.remove(name))).await
    }

    async fn read_settings(
        &self,
        known: Option<u64>,
    ) -> Result<Option<SettingsSnapshot>, StoreError> {
        let (now, document) = self.read(self.settings_key(), known).await?;
        Ok(document.map(|document| document.snapshot(now)))
    }

    async fn register_instance(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> Result<Vec<SettingEntry>, StoreError> {
        let lasts = lasts.min(SettingEntry::LONGEST);
        let register = |document: &mut SettingsDocument, now| {
            document.put(name, text, lasts, now)?;
            Ok(document.clone().snapshot(now).list)
        };
        self.change(self.instance_list_key(), register).await
    }
}

impl RedisStore {
    /// Reads, changes and writes a document, and starts over if another instance changed it meanwhile.
    /// A write that Redis does not answer is an error, and is not retried.
    async fn change<T>(
        &self,
        name: &KeyName,
        change: impl Fn(&mut SettingsDocument, u64) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError>
    where
        T: Send,
    {
        for _ in 0..TRIES {
            let (now, document) = self.read(name, None).await?;
            let mut document = document.unwrap_or_default();
            let before = document.version_bytes();
            document.sweep(now);
            let outcome = change(&mut document, now)?;
            document.renew();
            let mut call = ScriptCall::new(&BOARD_CHANGE, &[name.as_bytes()]);
            call.arg(before).arg(document.encode()).number(document.lasts_millis(now));
            if let RedisReply::Integer(1) = self.run_on_key(name, &call).await? {
                return Ok(outcome);
            }
        }
        let message = format!("shared settings: changed by others during each of {TRIES} attempts");
        Err(StoreError::new(StoreErrorKind::Overloaded, message))
    }

    /// Redis's time in milliseconds, and the document unless it still has the known version.
    async fn read(
        &self,
        name: &KeyName,
        known: Option<u64>,
    ) -> Result<(u64, Option<SettingsDocument>), StoreError> {
        let mut call = ScriptCall::new(&BOARD_LOOK, &[name.as_bytes()]);
        match known {
            None => call.arg("?"),
            Some(0) => call.arg(""),
            Some(version) => call.arg(version.to_be_bytes()),
        };
        let reply = self.run_on_key(name, &call).await?;
        let RedisReply::Array(items) = &reply else { return Err(misread()) };
        let [RedisReply::Bytes(secs), RedisReply::Bytes(micros), rest @ ..] = &items[..] else {
            return Err(misread());
        };
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let (Some(secs), Some(micros)) = (number(secs), number(micros)) else {
            return Err(misread());
        };
        let now = secs.saturating_mul(1_000).saturating_add(micros / 1_000);
        match rest {
            [] => Ok((now, None)),
            [RedisReply::Bytes(text)] => {
                SettingsDocument::decode(text).map(|document| (now, Some(document)))
            }
            _ => Err(misread()),
        }
    }

    async fn run_on_key(
        &self,
        name: &KeyName,
        call: &ScriptCall,
    ) -> Result<RedisReply, StoreError> {
        Ok(self.link().run_within(name.slot(), 0, call, PATIENCE).await?)
    }
}

fn misread() -> StoreError {
    StoreError::new(
        StoreErrorKind::Protocol,
        "shared settings: the script's reply has an unexpected shape",
    )
}

const TRIES: u32 = 16;
/// Longer than a decision may take: no request ever waits for the settings.
const PATIENCE: Duration = Duration::from_millis(500);
