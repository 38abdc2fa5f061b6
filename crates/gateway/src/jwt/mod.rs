//! JSON Web Tokens: verifies their signatures and lifetimes, and reads their claims for policies.

mod der;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod keys;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use serde_json::{Map, Value};
use tidegate::Timestamp;
use tidegate::config::RequestRules;
use tidegate_http::{RequestFault, only_bearer};
use tidegate_server::NamedFiles;

pub(crate) use keys::{JwtKeySet, JwtKeysError};

use crate::config::{JwtAlgorithm, JwtPlan};

/// Verifies tokens with a set of keys.
#[derive(Debug)]
pub(crate) struct JwtVerifier {
    config: JwtPlan,
    keys: JwtKeySet,
    /// How many signatures this verifier and its predecessors have verified.
    verified: Arc<AtomicU64>,
}

/// The claims of a verified token.
#[derive(Debug)]
pub(crate) struct JwtClaims(Map<String, Value>);

/// The reason why a token is refused. The client sees these texts, so they reveal nothing about keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JwtFault {
    #[error("no token: expected Authorization: Bearer")]
    Missing,
    #[error("two tokens: expected one")]
    Twice,
    #[error("the token is malformed")]
    Malformed,
    #[error("the token's algorithm is not accepted")]
    Algorithm,
    #[error("the token's signature is invalid")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token never expires: expected \"exp\"")]
    NoExpiry,
    #[error("the token is too old: expected one that was issued recently")]
    TooOld,
    #[error("the token is not valid yet")]
    TooEarly,
    #[error("the token's issuer or audience does not match")]
    Elsewhere,
}

impl JwtFault {
    /// The fault of a request whose token cannot be read.
    const fn of(fault: &RequestFault) -> Self {
        match fault {
            RequestFault::Twice(_) => Self::Twice,
            _ => Self::Malformed,
        }
    }
}

impl JwtClaims {
    /// A claim with a single value; `None` for lists and objects.
    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        match self.0.get(name)? {
            Value::String(text) => Some(text.clone().into_bytes()),
            Value::Number(number) => Some(number.to_string().into_bytes()),
            Value::Bool(truth) => Some(truth.to_string().into_bytes()),
            _ => None,
        }
    }
}

impl JwtVerifier {
    pub(crate) fn new(config: &JwtPlan, files: &mut NamedFiles) -> Result<Self, JwtKeysError> {
        Ok(Self {
            keys: JwtKeySet::read(config, files)?,
            config: config.clone(),
            verified: Arc::default(),
        })
    }

    /// Continues the count of the previous verifier.
    pub(crate) fn with_counter(self, verified: &Arc<AtomicU64>) -> Self {
        Self { verified: Arc::clone(verified), ..self }
    }

    /// The claims of a request's token; `None` if it has no token and needs none.
    pub(crate) fn claims(
        &self,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Option<JwtClaims>, JwtFault> {
        let token = only_bearer(headers, &RequestRules::default());
        match token.map_err(|fault| JwtFault::of(&fault))? {
            None if self.config.required => Err(JwtFault::Missing),
            None => Ok(None),
            Some(token) => self.verify(token, now).map(Some),
        }
    }

    fn verify(&self, token: &[u8], now: Timestamp) -> Result<JwtClaims, JwtFault> {
        let mut parts = token.split(|byte| *byte == b'.');
        let (Some(head), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(JwtFault::Malformed);
        };
        let header = object(head)?;
        let algorithm = self.algorithm(&header)?;
        let kid = header.get("kid").and_then(Value::as_str);
        let signature = decode(signature)?;
        let signed = token.get(..head.len() + 1 + claims.len()).ok_or(JwtFault::Malformed)?;
        self.verified.fetch_add(1, Ordering::Relaxed);
        if !self.keys.verify(algorithm, kid, signed, &signature) {
            return Err(JwtFault::Signature);
        }
        let claims = object(claims)?;
        self.check(&claims, now)?;
        Ok(JwtClaims(claims))
    }

    /// The token's algorithm, if the configuration accepts it.
    fn algorithm(&self, header: &Map<String, Value>) -> Result<JwtAlgorithm, JwtFault> {
        // The token requires extensions, and none is supported.
        if header.contains_key("crit") {
            return Err(JwtFault::Algorithm);
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or(JwtFault::Malformed)?;
        let accepted = self.config.algorithms.iter().find(|it| it.name() == name);
        accepted.copied().ok_or(JwtFault::Algorithm)
    }

    fn check(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<(), JwtFault> {
        let (now, leeway) = (now.as_micros() / 1_000_000, self.config.leeway.as_secs_ceil());
        match seconds(claims, "exp")? {
            Some(end) if now >= end.saturating_add(leeway) => return Err(JwtFault::Expired),
            None if self.config.requires_expiry => return Err(JwtFault::NoExpiry),
            _ => {}
        }
        if let Some(max_age) = self.config.max_age {
            let issued = seconds(claims, "iat")?.ok_or(JwtFault::TooOld)?;
            if now.saturating_add(leeway) < issued {
                return Err(JwtFault::TooEarly);
            }
            let latest = issued.saturating_add(max_age.as_secs_ceil()).saturating_add(leeway);
            if now >= latest {
                return Err(JwtFault::TooOld);
            }
        }
        if let Some(start) = seconds(claims, "nbf")?
            && now.saturating_add(leeway) < start
        {
            return Err(JwtFault::TooEarly);
        }
        let issuer = claims.get("iss").and_then(Value::as_str);
        let is_issuer = self.config.issuer.is_none() || self.config.issuer.as_deref() == issuer;
        let is_meant =
            self.config.audience.as_deref().is_none_or(|wanted| match claims.get("aud") {
                Some(Value::String(audience)) => audience == wanted,
                Some(Value::Array(all)) => all.iter().any(|it| it.as_str() == Some(wanted)),
                _ => false,
            });
        if is_issuer && is_meant { Ok(()) } else { Err(JwtFault::Elsewhere) }
    }
}

fn decode(text: &[u8]) -> Result<Vec<u8>, JwtFault> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JwtFault::Malformed)
}

fn object(text: &[u8]) -> Result<Map<String, Value>, JwtFault> {
    match serde_json::from_slice(&decode(text)?) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(JwtFault::Malformed),
    }
}

/// A time in whole seconds. A value that is not a number is a fault: ignoring it would remove the bound.
fn seconds(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, JwtFault> {
    match claims.get(name) {
        None => Ok(None),
        Some(Value::Number(number)) => {
            // Fractions of a second are valid, but not needed.
            let rounded = || number.as_f64().filter(|it| (0.0..LATEST).contains(it));
            let whole = number.as_u64().or_else(|| rounded().map(|it| it as u64));
            whole.map(Some).ok_or(JwtFault::Malformed)
        }
        Some(_) => Err(JwtFault::Malformed),
    }
}

/// 2^53: beyond this, a float cannot represent every second.
const LATEST: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests;
