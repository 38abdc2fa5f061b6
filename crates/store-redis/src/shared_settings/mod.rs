//! The notice board in Redis: one key, written by compare and swap.

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

/// The board's name. It looks like a counter's, so that a user with access to those has access to
/// it, but with a letter that no algorithm has. Deployments with other secrets have other boards.
pub(crate) fn name(prefix: &[u8], secret: &[u8; 16]) -> KeyName {
    named(prefix, secret, b"board")
}

/// The name of the list of instances, which has the form of a board. It is the same for all secrets:
/// instances that should have the same one find out there that they have not.
pub(crate) fn name_of_list(prefix: &[u8]) -> KeyName {
    named(prefix, &[0; 16], b"instances")
}

fn named(prefix: &[u8], secret: &[u8; 16], what: &[u8]) -> KeyName {
    use std::hash::Hasher as _;
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(what);
    let print = hasher.finish128();
    KeyName::of_board(prefix, print.h1, print.h2)
}

/// What is read as a board can be written, and then reads the same.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    if let Ok(page) = SettingsDocument::decode(bytes) {
        assert_eq!(SettingsDocument::decode(&page.encode()).ok(), Some(page));
    }
}

impl SharedSettings for RedisStore {
    async fn put_setting(&self, name: &str, text: &[u8], lasts: Span) -> Result<(), StoreError> {
        let lasts = lasts.min(SettingEntry::LONGEST);
        self.change(self.settings_key(), |page, now| page.post(name, text, lasts, now)).await
    }

    async fn remove_setting(&self, name: &str) -> Result<bool, StoreError> {
        self.change(self.settings_key(), |page, _| Ok(page.take_down(name))).await
    }

    async fn read_settings(
        &self,
        known: Option<u64>,
    ) -> Result<Option<SettingsSnapshot>, StoreError> {
        let (now, page) = self.read(self.settings_key(), known).await?;
        Ok(page.map(|page| page.notices(now)))
    }

    async fn register_instance(
        &self,
        name: &str,
        text: &[u8],
        lasts: Span,
    ) -> Result<Vec<SettingEntry>, StoreError> {
        let lasts = lasts.min(SettingEntry::LONGEST);
        let sign = |page: &mut SettingsDocument, now| {
            page.post(name, text, lasts, now)?;
            Ok(page.clone().notices(now).list)
        };
        self.change(self.instance_list_key(), sign).await
    }
}

impl RedisStore {
    /// Reads, changes and writes, and starts over if somebody else was faster. Only what Redis
    /// confirms counts as written: without its answer nothing is retried.
    async fn change<T>(
        &self,
        name: &KeyName,
        change: impl Fn(&mut SettingsDocument, u64) -> Result<T, StoreError> + Send,
    ) -> Result<T, StoreError>
    where
        T: Send,
    {
        for _ in 0..TRIES {
            let (now, page) = self.read(name, None).await?;
            let mut page = page.unwrap_or_default();
            let before = page.version_bytes();
            page.sweep(now);
            let outcome = change(&mut page, now)?;
            page.renew();
            let mut call = ScriptCall::new(&BOARD_CHANGE, &[name.as_bytes()]);
            call.arg(before).arg(page.encode()).number(page.lasts_millis(now));
            if let RedisReply::Integer(1) = self.run_on_board(name, &call).await? {
                return Ok(outcome);
            }
        }
        let message = format!("the board: others changed it {TRIES} times meanwhile");
        Err(StoreError::new(StoreErrorKind::Overloaded, message))
    }

    /// Redis's time in milliseconds, and the board unless it is still the known version.
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
        let reply = self.run_on_board(name, &call).await?;
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
                SettingsDocument::decode(text).map(|page| (now, Some(page)))
            }
            _ => Err(misread()),
        }
    }

    async fn run_on_board(
        &self,
        name: &KeyName,
        call: &ScriptCall,
    ) -> Result<RedisReply, StoreError> {
        Ok(self.link().run_within(name.slot(), 0, call, PATIENCE).await?)
    }
}

fn misread() -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, "the board: an answer that makes no sense")
}

const TRIES: u32 = 16;
/// No request ever waits for a board.
const PATIENCE: Duration = Duration::from_millis(500);
