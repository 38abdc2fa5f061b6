//! From a request to its key.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use tidegate_http::{ClientIp, RequestFault, bearer, only_bearer, only_text};
use tidegate_limiter::config::RequestRules;
use tidegate_limiter::{Address, Fingerprint, OwnedKey, Policy, key_as_text};

use super::{Absent, AddressOf, Form, Key, Source};
use crate::RequestHead;
use crate::warning::Warnings;

/// A request that is looked at for its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) warnings: &'a Warnings,
    /// Whether what can be read in two ways is refused. A layer that only watches refuses nobody.
    pub(crate) is_strict: bool,
    /// What is allowed in requests.
    pub(crate) rules: RequestRules,
    /// What the key is wanted as.
    pub(crate) form: Form,
}

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
        look: Look<'_>,
        policy: &Policy,
    ) -> Result<Option<Fingerprint>, RequestFault> {
        // The usual case needs no list of parts.
        if matches!(self.source, Source::ClientIp)
            && let Some(ip) = self.address.find(look)
        {
            return Ok(Some(policy.fingerprint(&self.address.counted(ip))));
        }
        Ok(self.whole(look)?.map(|key| policy.fingerprint(&key)))
    }

    /// What that is called where others read the names of counters.
    pub(crate) fn name(&self, look: Look<'_>) -> Result<Option<String>, RequestFault> {
        let key = self.whole(Look { form: Form::Name, ..look })?;
        Ok(key.map(|key| key_as_text(&key)))
    }

    /// All parts; `None` if the request is not to be limited.
    fn whole(&self, look: Look<'_>) -> Result<Option<OwnedKey>, RequestFault> {
        let mut key = OwnedKey::default();
        match self.find(look, &mut key)? {
            Found::Unlimited => return Ok(None),
            Found::Key => {}
            Found::Substitute => key.push(SUBSTITUTE),
        }
        Ok(Some(key))
    }

    /// The value itself, as policies read it, where nothing may stand in for it.
    pub(crate) fn value_of(&self, look: Look<'_>) -> Result<Option<Vec<u8>>, RequestFault> {
        match &self.source {
            Source::ClientIp => Ok(self.address.find(look).map(|ip| ip.to_string().into_bytes())),
            Source::Function(function) => {
                Ok(function(*look.head, Form::Text).map(|value| value.as_bytes().to_vec()))
            }
            _ => {
                let mut key = OwnedKey::default();
                let is_there = self.has(look, &mut key)?;
                Ok(is_there.then(|| key.as_bytes().to_vec()))
            }
        }
    }

    /// The client's address, as this key finds it.
    pub(crate) fn client(&self, look: Look<'_>) -> Option<IpAddr> {
        self.address.find(look)
    }

    fn find(&self, look: Look<'_>, key: &mut OwnedKey) -> Result<Found, RequestFault> {
        if let Source::All(keys) = &self.source {
            return all(keys, look, key);
        }
        if self.has(look, key)? { Ok(Found::Key) } else { self.substitute(look, key) }
    }

    /// Whether the request has this key itself.
    fn has(&self, look: Look<'_>, key: &mut OwnedKey) -> Result<bool, RequestFault> {
        Ok(match &self.source {
            Source::Everybody => true,
            Source::All(keys) => {
                for one in keys {
                    if !one.has(look, key)? {
                        return Ok(false);
                    }
                }
                true
            }
            Source::ClientIp => {
                look.push(key, self.address.find(look).map(|ip| self.address.counted(ip)))
            }
            Source::Header(Some(name)) => {
                let value = match look.is_strict {
                    true => only_text(look.head.headers(), name.as_str(), &look.rules)?,
                    false => look.head.header(name.as_str()).map(Cow::Borrowed),
                };
                look.push(key, value.as_deref())
            }
            Source::Header(None) => false,
            Source::Bearer => look.push(key, look.bearer()?),
            Source::ApiKey => look.push(key, look.api_key()?.as_deref()),
            #[cfg(feature = "axum")]
            Source::PathTemplate => look.push(key, look.head.route()),
            Source::Function(function) => look.push(key, function(*look.head, look.form)),
        })
    }

    fn substitute(&self, look: Look<'_>, key: &mut OwnedKey) -> Result<Found, RequestFault> {
        match &self.absent {
            Absent::Unlimited => return Ok(Found::Unlimited),
            Absent::Other(other) => {
                let found = other.find(look, key)?;
                if found == Found::Substitute {
                    // What stands in for a substitute is not what it stands for.
                    key.push(SUBSTITUTE);
                }
                return Ok(if found == Found::Key { Found::Substitute } else { found });
            }
            Absent::Shared => key.push(&NOBODY),
            Absent::Address => match self.address.find(look) {
                Some(ip) => look.form.add(&self.address.counted(ip), key),
                None => {
                    look.warnings.no_address();
                    key.push(&NOBODY);
                }
            },
        }
        Ok(Found::Substitute)
    }
}

impl<'a> Look<'a> {
    fn bearer(self) -> Result<Option<&'a [u8]>, RequestFault> {
        let headers = self.head.headers();
        if self.is_strict {
            return only_bearer(headers, &self.rules);
        }
        let mut values = headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes);
        Ok(values.find_map(|value| bearer(value).ok().flatten()))
    }

    fn push<K: tidegate_limiter::Key>(self, key: &mut OwnedKey, value: Option<K>) -> bool {
        if let Some(value) = &value {
            self.form.add(value, key);
        }
        value.is_some()
    }

    fn api_key(self) -> Result<Option<Cow<'a, [u8]>>, RequestFault> {
        let request = self.head.as_request(self.rules);
        if self.is_strict { request.only("api_key") } else { Ok(request.attribute("api_key")) }
    }

    /// The client behind these proxies, or whoever connects if they are none of them. Where the
    /// server does not say who connects, nobody is believed: anybody might have.
    pub(crate) fn client_behind(self, client: &ClientIp) -> Option<IpAddr> {
        let peer = self.head.peer();
        if peer.is_none() && client.asks_who_connects() {
            return None;
        }
        client.of(peer, self.head.headers())
    }

    /// The client's address, or the one address of all whose address is not known.
    pub(crate) fn or_nobody(self, client: Option<IpAddr>) -> IpAddr {
        client.unwrap_or_else(|| {
            self.warnings.no_address();
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        })
    }
}

/// Which of them were substituted is part of the key: a substitute has other parts than what it
/// stands for, and no request must be able to look like another by leaving something out.
fn all(keys: &[Key], look: Look<'_>, key: &mut OwnedKey) -> Result<Found, RequestFault> {
    let mut substituted = Vec::new();
    for (index, one) in keys.iter().enumerate() {
        match one.find(look, key)? {
            Found::Key => {}
            Found::Substitute => substituted.extend_from_slice(&index.to_le_bytes()),
            Found::Unlimited => return Ok(Found::Unlimited),
        }
    }
    if substituted.is_empty() {
        return Ok(Found::Key);
    }
    key.push(&substituted);
    Ok(Found::Substitute)
}

impl AddressOf {
    fn find(&self, look: Look<'_>) -> Option<IpAddr> {
        match &self.client {
            Some(client) => look.client_behind(client),
            None => {
                look.warnings.if_forwarded(look.head.headers());
                look.client_behind(&ClientIp::of_the_socket())
            }
        }
    }

    fn counted(&self, ip: IpAddr) -> Address {
        // A key keeps 64 bits at most: that is what an `Address` counts by.
        Address::from(ip).truncated(self.ipv6_prefix.unwrap_or(64))
    }
}

/// Marks keys that stand in for others. No text has these bytes, so that no caller can call itself
/// what a substitute is called.
const SUBSTITUTE: &[u8] = b"\xff\xffsubstitute";
/// The parts of an address that is not known: as many as of one that is.
const NOBODY: (&str, &str) = ("", "nobody");
