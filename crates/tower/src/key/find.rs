//! From a request to its key.

use std::net::IpAddr;

use tidegate_http::ClientIp;
use tidegate_limiter::{Address, Fingerprint, OwnedKey, Policy};

use super::{Absent, AddressOf, Key, Source};
use crate::RequestHead;
use crate::warning::Warnings;

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is there.
    Key,
    /// Something else stands in its place.
    Substitute,
    /// The request is not to be limited.
    Unlimited,
}

impl Key {
    /// What a policy counts a request by; `None` if it is not to be limited.
    pub(crate) fn print(
        &self,
        head: RequestHead<'_>,
        warnings: &Warnings,
        policy: &Policy,
    ) -> Option<Fingerprint> {
        // The usual case needs no list of parts.
        if matches!(self.source, Source::ClientIp)
            && let Some(ip) = self.address.find(head, warnings)
        {
            return Some(policy.fingerprint(&self.address.counted(ip)));
        }
        let mut key = OwnedKey::default();
        match self.find(head, warnings, &mut key) {
            Found::Unlimited => return None,
            Found::Key => {}
            Found::Substitute => key.push(SUBSTITUTE),
        }
        Some(policy.fingerprint(&key))
    }

    /// The value itself, where nothing may stand in for it.
    pub(crate) fn value_of(&self, head: RequestHead<'_>, warnings: &Warnings) -> Option<OwnedKey> {
        let mut key = OwnedKey::default();
        (self.find(head, warnings, &mut key) == Found::Key).then_some(key)
    }

    /// The client's address, as this key finds it.
    pub(crate) fn client(&self, head: RequestHead<'_>, warnings: &Warnings) -> Option<IpAddr> {
        self.address.find(head, warnings)
    }

    fn find(&self, head: RequestHead<'_>, warnings: &Warnings, key: &mut OwnedKey) -> Found {
        let is_there = match &self.source {
            Source::Everybody => true,
            Source::All(keys) => return all(keys, head, warnings, key),
            Source::ClientIp => {
                push(key, self.address.find(head, warnings).map(|ip| self.address.counted(ip)))
            }
            Source::Header(name) => {
                let value = name.as_ref().and_then(|name| head.headers().get(name));
                push(key, value.map(http::HeaderValue::as_bytes))
            }
            Source::ApiKey => push(key, head.api_key().as_deref()),
            #[cfg(feature = "axum")]
            Source::PathTemplate => push(key, head.route()),
            Source::Function(function) => push(key, function(head)),
        };
        if is_there { Found::Key } else { self.substitute(head, warnings, key) }
    }

    fn substitute(&self, head: RequestHead<'_>, warnings: &Warnings, key: &mut OwnedKey) -> Found {
        match &self.absent {
            Absent::Unlimited => return Found::Unlimited,
            Absent::Other(other) => {
                let found = other.find(head, warnings, key);
                return if found == Found::Key { Found::Substitute } else { found };
            }
            Absent::Shared => key.push(&NOBODY),
            Absent::Address => match self.address.find(head, warnings) {
                Some(ip) => key.push(&self.address.counted(ip)),
                None => {
                    warnings.no_address();
                    key.push(&NOBODY);
                }
            },
        }
        Found::Substitute
    }
}

/// Which of them were substituted is part of the key: a substitute has other parts than what it
/// stands for, and no request must be able to look like another by leaving something out.
fn all(keys: &[Key], head: RequestHead<'_>, warnings: &Warnings, key: &mut OwnedKey) -> Found {
    let mut substituted = Vec::new();
    for (index, one) in keys.iter().enumerate() {
        match one.find(head, warnings, key) {
            Found::Key => {}
            Found::Substitute => substituted.extend_from_slice(&index.to_le_bytes()),
            Found::Unlimited => return Found::Unlimited,
        }
    }
    if substituted.is_empty() {
        return Found::Key;
    }
    key.push(&substituted);
    Found::Substitute
}

fn push<K: tidegate_limiter::Key>(key: &mut OwnedKey, value: Option<K>) -> bool {
    if let Some(value) = &value {
        key.push(value);
    }
    value.is_some()
}

impl AddressOf {
    fn find(&self, head: RequestHead<'_>, warnings: &Warnings) -> Option<IpAddr> {
        match &self.client {
            Some(client) => client.of(head.peer(), head.headers()),
            None => {
                warnings.if_forwarded(head.headers());
                ClientIp::of_the_socket().of(head.peer(), head.headers())
            }
        }
    }

    fn counted(&self, ip: IpAddr) -> Address {
        Address::from(ip).truncated(self.ipv6_prefix)
    }
}

/// Marks keys that stand in for others. No text has these bytes, so that no caller can call itself
/// what a substitute is called.
const SUBSTITUTE: &[u8] = b"\xff\xffsubstitute";
/// The parts of an address that is not known: as many as of one that is.
const NOBODY: (&str, &str) = ("", "nobody");
