//! Finds the key of a request.

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

/// A request, and everything else that finding its key needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyContext<'a> {
    pub(crate) head: &'a RequestHead<'a>,
    pub(crate) warnings: &'a LayerWarnings,
    /// Whether ambiguous requests are refused. A shadow layer refuses nothing.
    pub(crate) is_strict: bool,
    /// The rules for reading requests.
    pub(crate) rules: RequestRules,
    /// The form in which the key is needed.
    pub(crate) form: KeyForm,
}

/// How a key was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyOutcome {
    /// The request has the key itself.
    Key,
    /// A substitute is used.
    Substitute,
    /// The request is not limited.
    Unlimited,
}

impl RequestKey {
    /// The fingerprint that a policy counts a request by; `None` if the request is not limited.
    pub(crate) fn fingerprint(
        &self,
        context: KeyContext<'_>,
        policy: &Policy,
    ) -> Result<Option<Fingerprint>, RequestFault> {
        // The usual case needs no list of parts.
        if matches!(self.source, KeySource::ClientIp)
            && let Some(ip) = self.address.find(context)
        {
            return Ok(Some(policy.fingerprint(&self.address.counted(ip))));
        }
        Ok(self.owned_key(context)?.map(|key| policy.fingerprint(&key)))
    }

    /// The readable name of the key, for stores that store keys by name.
    pub(crate) fn name(&self, context: KeyContext<'_>) -> Result<Option<String>, RequestFault> {
        let key = self.owned_key(KeyContext { form: KeyForm::Name, ..context })?;
        Ok(key.map(|key| key_as_text(&key)))
    }

    /// All parts of the key; `None` if the request is not limited.
    pub(crate) fn owned_key(
        &self,
        context: KeyContext<'_>,
    ) -> Result<Option<OwnedKey>, RequestFault> {
        let mut key = OwnedKey::default();
        match self.find(context, &mut key)? {
            KeyOutcome::Unlimited => return Ok(None),
            KeyOutcome::Key => {}
            KeyOutcome::Substitute => key.push(SUBSTITUTE),
        }
        Ok(Some(key))
    }

    /// The value itself, as policies compare it, without substitutes.
    pub(crate) fn value_of(
        &self,
        context: KeyContext<'_>,
    ) -> Result<Option<Vec<u8>>, RequestFault> {
        match &self.source {
            KeySource::ClientIp => {
                Ok(self.address.find(context).map(|ip| ip.to_string().into_bytes()))
            }
            KeySource::Function(function) => {
                Ok(function(*context.head, KeyForm::Text).map(|value| value.as_bytes().to_vec()))
            }
            _ => {
                let mut key = OwnedKey::default();
                let is_there = self.push_if_present(context, &mut key)?;
                Ok(is_there.then(|| key.as_bytes().to_vec()))
            }
        }
    }

    /// The client's address, as this key finds it.
    pub(crate) fn client(&self, context: KeyContext<'_>) -> Option<IpAddr> {
        self.address.find(context)
    }

    fn find(
        &self,
        context: KeyContext<'_>,
        key: &mut OwnedKey,
    ) -> Result<KeyOutcome, RequestFault> {
        if let KeySource::All(keys) = &self.source {
            return all(keys, context, key);
        }
        if self.push_if_present(context, key)? {
            Ok(KeyOutcome::Key)
        } else {
            self.substitute(context, key)
        }
    }

    /// Adds the parts of this key if the request has it. Returns whether it does.
    fn push_if_present(
        &self,
        context: KeyContext<'_>,
        key: &mut OwnedKey,
    ) -> Result<bool, RequestFault> {
        Ok(match &self.source {
            KeySource::Everybody => true,
            KeySource::All(keys) => {
                for one in keys {
                    if !one.push_if_present(context, key)? {
                        return Ok(false);
                    }
                }
                true
            }
            KeySource::ClientIp => {
                context.push(key, self.address.find(context).map(|ip| self.address.counted(ip)))
            }
            KeySource::Header(Some(name)) => {
                let value = match context.is_strict {
                    true => only_text(context.head.headers(), name.as_str(), &context.rules)?,
                    false => context.head.header(name.as_str()).map(Cow::Borrowed),
                };
                context.push(key, value.as_deref())
            }
            KeySource::Header(None) => false,
            KeySource::Bearer => context.push(key, context.bearer()?),
            KeySource::ApiKey => context.push(key, context.api_key()?.as_deref()),
            #[cfg(feature = "axum")]
            KeySource::PathTemplate => context.push(key, context.head.route()),
            KeySource::Function(function) => {
                context.push(key, function(*context.head, context.form))
            }
        })
    }

    fn substitute(
        &self,
        context: KeyContext<'_>,
        key: &mut OwnedKey,
    ) -> Result<KeyOutcome, RequestFault> {
        match &self.absent {
            KeySubstitute::Unlimited => return Ok(KeyOutcome::Unlimited),
            KeySubstitute::Other(other) => {
                let found = other.find(context, key)?;
                if found == KeyOutcome::Substitute {
                    // A substitute of a substitute must differ from the substitute itself.
                    key.push(SUBSTITUTE);
                }
                return Ok(if found == KeyOutcome::Key { KeyOutcome::Substitute } else { found });
            }
            KeySubstitute::Shared => key.push(&UNKNOWN_ADDRESS),
            KeySubstitute::Address => match self.address.find(context) {
                Some(ip) => context.form.add(&self.address.counted(ip), key),
                None => {
                    context.warnings.warn_no_address();
                    key.push(&UNKNOWN_ADDRESS);
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

    /// The client behind these proxies, or the peer if it is not one of them. Without the peer's address
    /// no forwarding header is trusted: any client could have sent it.
    pub(crate) fn client_behind(self, client: &ClientIp) -> Option<IpAddr> {
        let peer = self.head.peer();
        if peer.is_none() && client.depends_on_peer() {
            return None;
        }
        client.of(peer, self.head.headers())
    }

    /// The client's address, or the unspecified address, which all clients without one share.
    pub(crate) fn or_unspecified(self, client: Option<IpAddr>) -> IpAddr {
        client.unwrap_or_else(|| {
            self.warnings.warn_no_address();
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        })
    }
}

/// Finds all keys. Which of them were substituted is part of the result: no request must be able to context
/// like another by omitting a key.
fn all(
    keys: &[RequestKey],
    context: KeyContext<'_>,
    key: &mut OwnedKey,
) -> Result<KeyOutcome, RequestFault> {
    let mut substituted = Vec::new();
    for (index, one) in keys.iter().enumerate() {
        match one.find(context, key)? {
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
    fn find(&self, context: KeyContext<'_>) -> Option<IpAddr> {
        match &self.client {
            Some(client) => context.client_behind(client),
            None => {
                context.warnings.warn_if_forwarded(context.head.headers());
                context.client_behind(&ClientIp::of_socket())
            }
        }
    }

    fn counted(&self, ip: IpAddr) -> IpAddress {
        // An `IpAddress` keeps at most 64 bits of an IPv6 address.
        IpAddress::from(ip).truncated(self.ipv6_prefix.unwrap_or(64))
    }
}

/// Marks substitutes. These bytes are not valid UTF-8, so that no caller can choose a key that equals a
/// substitute.
const SUBSTITUTE: &[u8] = b"\xff\xffsubstitute";
/// The parts that replace an unknown address: as many as an address has.
const UNKNOWN_ADDRESS: (&str, &str) = ("", "nobody");
