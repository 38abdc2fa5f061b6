//! Makes a key's name from a template and a charge.

use std::borrow::Cow;

use siphasher::sip128::SipHasher24;
use tidegate_core::{Charge, Fingerprint, KeyPlaceholder, TemplatePart};

use super::KeyFormat;
use crate::key_name::KeyName;

/// A key's name, before and after the window that only Redis knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedKeyName {
    pub(crate) head: Vec<u8>,
    pub(crate) tail: Vec<u8>,
}

impl SharedKeyName {
    /// The name of the key of one window; without a window, a name in the same slot.
    pub(crate) fn around(&self, window: &str) -> KeyName {
        KeyName::given([&self.head, window.as_bytes(), &self.tail].concat())
    }
}

/// The longest text that goes into a name unchanged, in bytes.
const LONGEST_TEXT: usize = 512;

impl KeyFormat {
    /// The name of a charge's keys. An entity or limit without a name is named by its fingerprint.
    pub(crate) fn name(&self, charge: &Charge<'_>, secret: &[u8; 16]) -> SharedKeyName {
        let tagged = self.template.parts().iter().any(|part| match part {
            TemplatePart::Text(text) => text.contains(['{', '}']),
            TemplatePart::Placeholder(_) => false,
        });
        let shown = |text| shown(text, tagged, secret);
        let names = charge.names();
        let entity = names.and_then(|names| names.entity.as_deref()).map(shown);
        let limit = names.and_then(|names| names.limit.as_deref()).map(shown);
        // Fingerprints print in hex.
        let by_fingerprint = |fingerprint: Fingerprint| format!("{fingerprint:?}").into();
        self.split(|placeholder| match placeholder {
            KeyPlaceholder::Entity => {
                entity.clone().unwrap_or_else(|| by_fingerprint(charge.subject()))
            }
            _ => limit.clone().unwrap_or_else(|| by_fingerprint(charge.rule().id)),
        })
    }

    /// The parts before the window and those after it.
    pub(super) fn split<'a>(
        &self,
        text_of: impl Fn(KeyPlaceholder) -> Cow<'a, str>,
    ) -> SharedKeyName {
        let (mut head, mut tail, mut after) = (Vec::new(), Vec::new(), false);
        for part in self.template.parts() {
            let out = if after { &mut tail } else { &mut head };
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Placeholder(KeyPlaceholder::Window(_)) => after = true,
                TemplatePart::Placeholder(other) => {
                    out.extend_from_slice(text_of(*other).as_bytes());
                }
            }
        }
        SharedKeyName { head, tail }
    }
}

/// A text as it may appear in a name. Its length is bounded, it cannot inject terminal control
/// sequences, and its braces cannot move keys to another slot.
fn shown<'a>(text: &'a str, tagged: bool, secret: &[u8; 16]) -> Cow<'a, str> {
    let breaks_tag = text.is_empty() || text.contains(['{', '}']);
    if text.len() <= LONGEST_TEXT && !text.contains(char::is_control) && !(tagged && breaks_tag) {
        return Cow::Borrowed(text);
    }
    let hash = SipHasher24::new_with_key(secret).hash(text.as_bytes());
    Cow::Owned(format!("hash-{:016x}{:016x}", hash.h1, hash.h2))
}
