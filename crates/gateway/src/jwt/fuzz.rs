//! Fuzzes the verifier with forged tokens, signed nonsense, and arbitrary key files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use std::cell::LazyCell;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use ring::hmac;
use tidegate::Plan;
use tidegate::config::PolicySource;

use super::*;
use crate::config::{GatewaySection, SECTIONS};

/// Uses the bytes as a token, which must never be accepted; as the header and claims of a token with a valid
/// signature, which is accepted only if its times are valid; and as a file of keys.
pub(crate) fn token(bytes: &[u8]) {
    thread_local! {
        static VERIFIER: LazyCell<JwtVerifier> = LazyCell::new(verifier);
    }
    VERIFIER.with(|verifier| {
        let forged = claims(verifier, bytes);
        assert!(!matches!(forged, Ok(Some(_))), "a token without a valid signature is accepted");
        let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
        let (header, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let token = signed(header, body);
        if let Ok(Some(JwtClaims(claims))) = claims(verifier, token.as_bytes()) {
            let time = |name: &str| claims.get(name).and_then(Value::as_f64);
            assert!(time("exp").is_none_or(|end| end > (NOW - LEEWAY) as f64 - 1.0), "{claims:?}");
            assert!(
                time("nbf").is_none_or(|begin| begin < (NOW + LEEWAY) as f64 + 1.0),
                "{claims:?}"
            );
        }
        for end in [token.len() - 1, token.len() - 10] {
            let cut = self::claims(verifier, &token.as_bytes()[..end]);
            assert!(!matches!(cut, Ok(Some(_))), "a token with a truncated signature is accepted");
        }
        if let Ok(keys) = JwtKeySet::parse(bytes, &verifier.config) {
            keys.verify(JwtAlgorithm::EdDsa, None, b"message", &[0; 64]);
            keys.verify(JwtAlgorithm::Es256, Some("a"), b"message", &[0; 64]);
            keys.verify(JwtAlgorithm::Rs256, None, b"message", &[0; 256]);
            keys.verify(JwtAlgorithm::Hs256, None, b"message", &[0; 32]);
        }
    });
}

fn claims(verifier: &JwtVerifier, token: &[u8]) -> Result<Option<JwtClaims>, JwtFault> {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(&[b"Bearer ", token].concat()) {
        headers.insert(AUTHORIZATION, value);
    }
    verifier.claims(&headers, Timestamp::from_secs(NOW))
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn verifier() -> JwtVerifier {
    let text = "gateway: { upstreams: { a: http://h }, jwt: { keys: k, algorithms: [HS256] } }\n\
                policies: [{ name: p, key: ['jwt:sub'], limits: [1/s] }]";
    let plan =
        Plan::compile(&PolicySource::new("fuzz", text).unwrap().with_sections(SECTIONS)).unwrap();
    let config = plan.section::<GatewaySection>().unwrap().jwt.clone().unwrap();
    assert_eq!(config.leeway.as_secs_ceil(), LEEWAY);
    JwtVerifier {
        keys: JwtKeySet::parse(SECRET, &config).unwrap(),
        config,
        verified: Arc::default(),
    }
}

const NOW: u64 = 1_700_000_000;
const LEEWAY: u64 = 30;
const SECRET: &[u8] = b"a secret of at least thirty-two bytes, as it should be";
