//! From a request to its key.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::HeaderValue;
use http::header::AUTHORIZATION;
use tidegate_http::{ClientIp, RequestFault, bearer, only_bearer, only_text};
use tidegate_limiter::config::RequestRules;
use tidegate_limiter::{Fingerprint, IpAddress, OwnedKey, Policy, key_as_text};

use super::{AddressRule, KeyForm, KeySource, KeySubstitute, RequestKey};
use crate::RequestHead;
use crate::warnings::LayerWarnings;

/// A request that is looked at for its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyContext<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) warnings: &'a LayerWarnings,
    /// Whether what can be read in two ways is refused. A layer that only watches refuses nobody.
    pub(crate) is_strict: bool,
    /// What is allowed in requests.
    pub(crate) rules: RequestRules,
    /// What the key is wanted as.
    pub(crate) form: KeyForm,
}

/// What became of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOutcome {
    /// It is there.
    Key,
    /// Something else stands in its place.
    Substitute,
    /// The request is not to be limited.
    Unlimited,
}

impl RequestKey {
    /// What a policy counts a request by; `None` if it is not to be limited.
    pub(crate) fn fingerprint(
        &self,
        look: KeyContext<'_>,
        policy: &Policy,
    ) -> Result<Option<Fingerprint>, RequestFault> {
        // The usual case needs no list of parts.
        if matches!(self.source, KeySource::ClientIp)
            && let Some(ip) = self.address.find(look)
        {
            return Ok(Some(policy.fingerprint(&self.address.counted(ip))));
        }
        Ok(self.owned_key(look)?.map(|key| policy.fingerprint(&key)))
    }

    /// What that is called where others read the names of counters.
    pub(crate) fn name(&self, look: KeyContext<'_>) -> Result<Option<String>, RequestFault> {
        let key = self.owned_key(KeyContext { form: KeyForm::Name, ..look })?;
        Ok(key.map(|key| key_as_text(&key)))
    }

    /// All parts; `None` if the request is not to be limited.
    fn owned_key(&self, look: KeyContext<'_>) -> Result<Option<OwnedKey>, RequestFault> {
        let mut key = OwnedKey::default();
        match self.find(look, &mut key)? {
            KeyOutcome::Unlimited => return Ok(None),
            KeyOutcome::Key => {}
            KeyOutcome::Substitute => key.push(SUBSTITUTE),
        }
        Ok(Some(key))
    }

    /// The value itself, as policies read it, where nothing may stand in for it.
    pub(crate) fn value_of(&self, look: KeyContext<'_>) -> Result<Option<Vec<u8>>, RequestFault> {
        match &self.source {
            KeySource::ClientIp => {
                Ok(self.address.find(look).map(|ip| ip.to_string().into_bytes()))
            }
            KeySource::Function(function) => {
                Ok(function(*look.head, KeyForm::Text).map(|value| value.as_bytes().to_vec()))
            }
            _ => {
                let mut key = OwnedKey::default();
                let is_there = self.push_if_present(look, &mut key)?;
                Ok(is_there.then(|| key.as_bytes().to_vec()))
            }
        }
    }

    /// The client's address, as this key finds it.
    pub(crate) fn client(&self, look: KeyContext<'_>) -> Option<IpAddr> {
        self.address.find(look)
    }

    fn find(&self, look: KeyContext<'_>, key: &mut OwnedKey) -> Result<KeyOutcome, RequestFault> {
        if let KeySource::All(keys) = &self.source {
            return all(keys, look, key);
        }
        if self.push_if_present(look, key)? {
            Ok(KeyOutcome::Key)
        } else {
            self.substitute(look, key)
        }
    }

    /// Whether the request has this key itself.
    fn push_if_present(
        &self,
        look: KeyContext<'_>,
        key: &mut OwnedKey,
    ) -> Result<bool, RequestFault> {
        Ok(match &self.source {
            KeySource::Everybody => true,
            KeySource::All(keys) => {
                for one in keys {
                    if !one.push_if_present(look, key)? {
                        return Ok(false);
                    }
                }
                true
            }
            KeySource::ClientIp => {
                look.push(key, self.address.find(look).map(|ip| self.address.counted(ip)))
            }
            KeySource::Header(Some(name)) => {
                let value = match look.is_strict {
                    true => only_text(look.head.headers(), name.as_str(), &look.rules)?,
                    false => look.head.header(name.as_str()).map(Cow::Borrowed),
                };
                look.push(key, value.as_deref())
            }
            KeySource::Header(None) => false,
            KeySource::Bearer => look.push(key, look.bearer()?),
            KeySource::ApiKey => look.push(key, look.api_key()?.as_deref()),
            #[cfg(feature = "axum")]
            KeySource::PathTemplate => look.push(key, look.head.route()),
            KeySource::Function(function) => look.push(key, function(*look.head, look.form)),
        })
    }

    fn substitute(
        &self,
        look: KeyContext<'_>,
        key: &mut OwnedKey,
    ) -> Result<KeyOutcome, RequestFault> {
        match &self.absent {
            KeySubstitute::Unlimited => return Ok(KeyOutcome::Unlimited),
            KeySubstitute::Other(other) => {
                let found = other.find(look, key)?;
                if found == KeyOutcome::Substitute {
                    // What stands in for a substitute is not what it stands for.
                    key.push(SUBSTITUTE);
                }
                return Ok(if found == KeyOutcome::Key { KeyOutcome::Substitute } else { found });
            }
            KeySubstitute::Shared => key.push(&NOBODY),
            KeySubstitute::Address => match self.address.find(look) {
                Some(ip) => look.form.add(&self.address.counted(ip), key),
                None => {
                    look.warnings.warn_no_address();
                    key.push(&NOBODY);
                }
            },
        }
        Ok(KeyOutcome::Substitute)
    }
}

impl<'a> KeyContext<'a> {
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
        if self.is_strict {
            request.only_attribute("api_key")
        } else {
            Ok(request.attribute("api_key"))
        }
    }

    /// The client behind these proxies, or whoever connects if they are none of them. Where the
    /// server does not say who connects, nobody is believed: anybody might have.
    pub(crate) fn client_behind(self, client: &ClientIp) -> Option<IpAddr> {
        let peer = self.head.peer();
        if peer.is_none() && client.depends_on_peer() {
            return None;
        }
        client.of(peer, self.head.headers())
    }

    /// The client's address, or the one address of all whose address is not known.
    pub(crate) fn or_unspecified(self, client: Option<IpAddr>) -> IpAddr {
        client.unwrap_or_else(|| {
            self.warnings.warn_no_address();
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        })
    }
}

/// Which of them were substituted is part of the key: a substitute has other parts than what it
/// stands for, and no request must be able to look like another by leaving something out.
fn all(
    keys: &[RequestKey],
    look: KeyContext<'_>,
    key: &mut OwnedKey,
) -> Result<KeyOutcome, RequestFault> {
    let mut substituted = Vec::new();
    for (index, one) in keys.iter().enumerate() {
        match one.find(look, key)? {
            KeyOutcome::Key => {}
            KeyOutcome::Substitute => substituted.extend_from_slice(&index.to_le_bytes()),
            KeyOutcome::Unlimited => return Ok(KeyOutcome::Unlimited),
        }
    }
    if substituted.is_empty() {
        return Ok(KeyOutcome::Key);
    }
    key.push(&substituted);
    Ok(KeyOutcome::Substitute)
}

impl AddressRule {
    fn find(&self, look: KeyContext<'_>) -> Option<IpAddr> {
        match &self.client {
            Some(client) => look.client_behind(client),
            None => {
                look.warnings.warn_if_forwarded(look.head.headers());
                look.client_behind(&ClientIp::of_socket())
            }
        }
    }

    fn counted(&self, ip: IpAddr) -> IpAddress {
        // A key keeps 64 bits at most: that is what an `IpAddress` counts by.
        IpAddress::from(ip).truncated(self.ipv6_prefix.unwrap_or(64))
    }
}

/// Marks keys that stand in for others. No text has these bytes, so that no caller can call itself
/// what a substitute is called.
const SUBSTITUTE: &[u8] = b"\xff\xffsubstitute";
/// The parts of an address that is not known: as many as of one that is.
const NOBODY: (&str, &str) = ("", "nobody");
