//! The keys that verify tokens. Each key is for one kind of signature, so that a public key is never used
//! as a secret.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use ring::{digest, hmac};
use serde_json::Value;
use tidegate_server::NamedFiles;
use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::der::{self, DerPublicKey};
use crate::config::{JwtAlgorithm, JwtPlan};

/// The keys of a file.
#[derive(Debug)]
pub(crate) struct JwtKeySet(Vec<JwtKey>);

#[derive(Debug)]
struct JwtKey {
    id: Option<String>,
    material: JwtKeyMaterial,
}

enum JwtKeyMaterial {
    Secret(hmac::Key),
    /// An RSA key as modulus and exponent, from a JWKS.
    RsaComponents {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// An RSA key in PKCS#1, from a PEM file.
    Rsa(Vec<u8>),
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The reason why keys cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {why}")]
pub(crate) struct JwtKeysError {
    file: String,
    why: String,
}

impl JwtKeySet {
    pub(crate) fn read(config: &JwtPlan, files: &mut NamedFiles) -> Result<Self, JwtKeysError> {
        let wrong = |why: String| JwtKeysError { file: config.keys.display().to_string(), why };
        let bytes = files.read(&config.keys).map_err(|error| wrong(error.to_string()))?;
        let keys = Self::parse(&bytes, config).map_err(wrong)?;
        let is_usable = |algorithm: &JwtAlgorithm| keys.0.iter().any(|it| it.is_for(*algorithm));
        if let Some(algorithm) = config.algorithms.iter().find(|algorithm| !is_usable(algorithm)) {
            return Err(wrong(format!("no key for {}", algorithm.name())));
        }
        let is_crowded = |algorithm: &JwtAlgorithm| keys.unnamed(*algorithm).count() > MAX_UNNAMED;
        if let Some(algorithm) = config.algorithms.iter().find(|algorithm| is_crowded(algorithm)) {
            let (count, name) = (keys.unnamed(*algorithm).count(), algorithm.name());
            let expected = format!("expected a \"kid\" for each, or at most {MAX_UNNAMED}");
            return Err(wrong(format!("{count} keys for {name} without a \"kid\": {expected}")));
        }
        Ok(keys)
    }

    pub(super) fn parse(bytes: &[u8], config: &JwtPlan) -> Result<Self, String> {
        let text = bytes.trim_ascii();
        if text.starts_with(b"{") {
            return Self::of_jwks(text);
        }
        if text.starts_with(b"-----BEGIN") {
            let blocks: Result<Vec<_>, _> = SubjectPublicKeyInfoDer::pem_slice_iter(text).collect();
            let blocks = blocks.map_err(|error| error.to_string())?;
            let keys: Option<Vec<_>> = blocks.iter().map(|block| JwtKey::of_der(block)).collect();
            return match keys {
                Some(keys) if !keys.is_empty() => Ok(Self(keys)),
                _ => Err("no RSA, P-256 or Ed25519 public key in it".to_owned()),
            };
        }
        if !config.algorithms.contains(&JwtAlgorithm::Hs256) {
            return Err("neither a JWKS nor a public key in PEM".to_owned());
        }
        let material = JwtKeyMaterial::secret(text)?;
        Ok(Self(vec![JwtKey { id: None, material }]))
    }

    fn of_jwks(text: &[u8]) -> Result<Self, String> {
        let file: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let list = match file.get("keys") {
            Some(Value::Array(list)) => &list[..],
            // A single JWK.
            None if file.get("kty").is_some() => std::slice::from_ref(&file),
            _ => return Err("a JWKS without \"keys\"".to_owned()),
        };
        let mut keys = Vec::new();
        for (index, jwk) in list.iter().enumerate() {
            // Keys for other purposes, such as encryption, are skipped.
            if jwk.get("use").and_then(Value::as_str).is_none_or(|it| it == "sig") {
                keys.extend(JwtKey::of_jwk(jwk).map_err(|why| format!("key {index}: {why}"))?);
            }
        }
        if keys.is_empty() { Err("no supported key in it".to_owned()) } else { Ok(Self(keys)) }
    }

    /// The keys for an algorithm that have no `kid`, so that no token can name them.
    fn unnamed(&self, algorithm: JwtAlgorithm) -> impl Iterator<Item = &JwtKey> {
        self.0.iter().filter(move |key| key.is_for(algorithm) && key.id.is_none())
    }

    /// Whether the signature is valid. Tries the key with the token's `kid` and the keys without one. A token
    /// without a `kid` is tried with the latter, or with the only key. Trying all keys would multiply the
    /// cost of a flood of forged tokens.
    pub(super) fn verify(
        &self,
        algorithm: JwtAlgorithm,
        id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let fit = || self.0.iter().filter(|key| key.is_for(algorithm));
        let is_only = fit().nth(1).is_none();
        let is_meant = |key: &&JwtKey| match (&key.id, id) {
            (Some(key), Some(id)) => key == id,
            (Some(_), None) => is_only,
            (None, _) => true,
        };
        fit().filter(is_meant).any(|key| key.material.verify(message, signature))
    }
}

impl JwtKey {
    const fn is_for(&self, algorithm: JwtAlgorithm) -> bool {
        matches!(
            (&self.material, algorithm),
            (JwtKeyMaterial::Secret(_), JwtAlgorithm::Hs256)
                | (
                    JwtKeyMaterial::RsaComponents { .. } | JwtKeyMaterial::Rsa(_),
                    JwtAlgorithm::Rs256
                )
                | (JwtKeyMaterial::P256(_), JwtAlgorithm::Es256)
                | (JwtKeyMaterial::Ed25519(_), JwtAlgorithm::EdDsa)
        )
    }

    fn of_der(der: &SubjectPublicKeyInfoDer<'_>) -> Option<Self> {
        let material = match der::public_key(der)? {
            DerPublicKey::Rsa(key) => JwtKeyMaterial::Rsa(key.to_vec()),
            DerPublicKey::P256(key) => JwtKeyMaterial::P256(key.to_vec()),
            DerPublicKey::Ed25519(key) => JwtKeyMaterial::Ed25519(key.to_vec()),
        };
        Some(Self { id: None, material })
    }

    /// `None` for an unsupported kind of key.
    fn of_jwk(jwk: &Value) -> Result<Option<Self>, String> {
        let text = |name: &str| jwk.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            let value = text(name).ok_or_else(|| format!("no {name:?}"))?;
            URL_SAFE_NO_PAD.decode(value).map_err(|_| format!("{name:?} is not base64url"))
        };
        let material = match (text("kty"), text("crv")) {
            (Some("oct"), _) => JwtKeyMaterial::secret(&bytes("k")?)?,
            (Some("RSA"), _) => JwtKeyMaterial::RsaComponents { n: bytes("n")?, e: bytes("e")? },
            (Some("EC"), Some("P-256")) => {
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != 32 || y.len() != 32 {
                    return Err("not a point of P-256".to_owned());
                }
                JwtKeyMaterial::P256([&[4], &x[..], &y].concat())
            }
            (Some("OKP"), Some("Ed25519")) => JwtKeyMaterial::Ed25519(bytes("x")?),
            _ => return Ok(None),
        };
        Ok(Some(Self { id: text("kid").map(str::to_owned), material }))
    }
}

impl JwtKeyMaterial {
    /// Refuses short secrets: a single token is enough to guess them offline.
    fn secret(bytes: &[u8]) -> Result<Self, String> {
        let least = digest::SHA256_OUTPUT_LEN;
        if bytes.len() < least {
            let length = bytes.len();
            return Err(format!("a secret of {length} bytes: expected at least {least}"));
        }
        Ok(Self::Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    fn verify(&self, message: &[u8], proof: &[u8]) -> bool {
        let verify_with = |algorithm: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, proof).is_ok()
        };
        match self {
            Self::Secret(key) => hmac::verify(key, message, proof).is_ok(),
            Self::Rsa(key) => verify_with(&signature::RSA_PKCS1_2048_8192_SHA256, key),
            Self::P256(key) => verify_with(&signature::ECDSA_P256_SHA256_FIXED, key),
            Self::Ed25519(key) => verify_with(&signature::ED25519, key),
            Self::RsaComponents { n, e } => RsaPublicKeyComponents { n, e }
                .verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, proof)
                .is_ok(),
        }
    }
}

/// Shows only the kind of key, never a secret.
impl fmt::Debug for JwtKeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::RsaComponents { .. } | Self::Rsa(_) => "Rsa",
            Self::P256(_) => "P256",
            Self::Ed25519(_) => "Ed25519",
        })
    }
}

/// Keys without a `kid` are all tried. Two are enough for a rotation: the current key and the next one.
const MAX_UNNAMED: usize = 2;
