//! Tests of the verifier: which tokens and key files are accepted, and which are refused.

use super::*;
use crate::config::{GatewaySection, SECTIONS};
use http::header::AUTHORIZATION;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;
use tidegate::Plan;
use tidegate::config::PolicySource;

const NOW: u64 = 1_700_000_000;
const SECRET: &[u8] = b"a secret of at least thirty-two bytes, as it should be";

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A file that is removed on drop.
struct TempFile(std::path::PathBuf);

impl TempFile {
    fn new(contents: &[u8]) -> Self {
        let number = fastrand::u64(..);
        let path =
            std::env::temp_dir().join(format!("tidegate-jwt-{}-{number}", std::process::id()));
        std::fs::write(&path, contents).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn verifier(keys: &[u8], fields: &str) -> Result<JwtVerifier, JwtKeysError> {
    let file = TempFile::new(keys);
    let text = format!(
        "gateway: {{ upstreams: {{ a: http://h }}, jwt: {{ keys: {}, {fields} }} }}\n\
         policies: [{{ name: p, key: ['jwt:sub'], limits: [1/s] }}]",
        file.0.display()
    );
    let plan =
        Plan::compile(&PolicySource::new("test", text).unwrap().with_sections(SECTIONS)).unwrap();
    JwtVerifier::new(
        plan.section::<GatewaySection>().unwrap().jwt.as_ref().unwrap(),
        &mut NamedFiles::default(),
    )
}

fn hs256() -> JwtVerifier {
    verifier(SECRET, "algorithms: HS256").unwrap()
}

fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

/// A token that is valid for an hour, unless the claims have `exp`.
fn signed(claims: &Value) -> String {
    let mut claims = claims.clone();
    claims.as_object_mut().unwrap().entry("exp").or_insert(json!(NOW + 3_600));
    signed_as_is(&claims)
}

fn signed_as_is(claims: &Value) -> String {
    let message = unsigned(&json!({"alg": "HS256", "typ": "JWT"}), claims);
    with_hmac(message, SECRET)
}

fn with_hmac(message: String, secret: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", encode(tag.as_ref()))
}

fn subject(verifier: &JwtVerifier, token: &str) -> Result<String, JwtFault> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    let claims = verifier.claims(&headers, Timestamp::from_secs(NOW))?.unwrap();
    Ok(String::from_utf8(claims.get("sub").unwrap_or_default()).unwrap())
}

#[test]
fn a_token_with_a_good_signature_is_believed() {
    assert_eq!(subject(&hs256(), &signed(&json!({"sub": "alice"}))).unwrap(), "alice");
    assert_eq!(subject(&hs256(), &signed(&json!({"sub": 42}))).unwrap(), "42");
    assert_eq!(subject(&hs256(), &signed(&json!({"sub": ["a"]}))).unwrap(), "");
}

#[test]
fn every_other_token_is_refused() {
    let good = signed(&json!({"sub": "alice"}));
    let claims = json!({"sub": "eve"});
    let none = unsigned(&json!({"alg": "none"}), &claims);
    let other = with_hmac(unsigned(&json!({"alg": "HS256"}), &claims), b"another secret");
    let rs = with_hmac(unsigned(&json!({"alg": "RS256"}), &claims), SECRET);
    let critical = unsigned(&json!({"alg": "HS256", "crit": ["exp"]}), &claims);
    let (head, tail) = good.split_once('.').unwrap();
    let swapped = format!("{head}.{}.{}", encode(b"{}"), tail.split_once('.').unwrap().1);
    for (token, expected) in [
        (format!("{none}."), JwtFault::Algorithm),
        (format!("{}.", unsigned(&json!({"alg": "None"}), &claims)), JwtFault::Algorithm),
        (other, JwtFault::Signature),
        (rs, JwtFault::Algorithm),
        (with_hmac(critical, SECRET), JwtFault::Algorithm),
        (swapped, JwtFault::Signature),
        (format!("{good}x"), JwtFault::Signature),
        (good[..good.len() - 2].to_owned(), JwtFault::Signature),
        (format!("{good}.x"), JwtFault::Malformed),
        (none, JwtFault::Malformed),
        (String::new(), JwtFault::Malformed),
        ("a.b.c".to_owned(), JwtFault::Malformed),
        (format!("{}.{}.x", encode(b"[]"), encode(b"{}")), JwtFault::Malformed),
    ] {
        let refused = subject(&hs256(), &token).unwrap_err();
        // A signature with a character more or less may also be invalid base64.
        let alike = (refused, expected) == (JwtFault::Malformed, JwtFault::Signature);
        assert!(refused == expected || alike, "{token}: {refused:?}");
    }
}

#[test]
fn times_issuers_and_audiences_are_checked() {
    let of = |claims: Value| subject(&hs256(), &signed(&claims)).err();
    assert_eq!(of(json!({"exp": NOW + 1})), None);
    assert_eq!(of(json!({"exp": NOW - 29})), None, "within the leeway");
    assert_eq!(of(json!({"exp": NOW - 30})), Some(JwtFault::Expired));
    assert_eq!(of(json!({"exp": 1.5})), Some(JwtFault::Expired));
    assert_eq!(of(json!({"exp": "never"})), Some(JwtFault::Malformed));
    assert_eq!(of(json!({"exp": -1})), Some(JwtFault::Malformed));
    // Exponents count: the first digits of a number are not its value.
    assert_eq!(of(json!({"exp": 1.7e9})), None);
    assert_eq!(of(json!({"nbf": 1.8e9})), Some(JwtFault::TooEarly));
    assert_eq!(of(json!({"nbf": 1.5e300})), Some(JwtFault::Malformed));
    assert_eq!(of(json!({"nbf": NOW + 30})), None);
    assert_eq!(of(json!({"nbf": NOW + 31})), Some(JwtFault::TooEarly));
    let strict = verifier(SECRET, "algorithms: HS256, issuer: us, audience: api").unwrap();
    let of = |claims: Value| subject(&strict, &signed(&claims)).err();
    assert_eq!(of(json!({"iss": "us", "aud": "api"})), None);
    assert_eq!(of(json!({"iss": "us", "aud": ["web", "api"]})), None);
    assert_eq!(of(json!({"iss": "them", "aud": "api"})), Some(JwtFault::Elsewhere));
    assert_eq!(of(json!({"iss": "us", "aud": "web"})), Some(JwtFault::Elsewhere));
    assert_eq!(of(json!({"iss": "us"})), Some(JwtFault::Elsewhere));
}

#[test]
fn attack_06_a_token_that_never_expires_is_refused_unless_told_otherwise() {
    let endless = signed_as_is(&json!({"sub": "alice"}));
    assert_eq!(subject(&hs256(), &endless), Err(JwtFault::NoExpiry));
    let lenient = verifier(SECRET, "algorithms: HS256, require_exp: false").unwrap();
    assert_eq!(subject(&lenient, &endless).unwrap(), "alice");
}

#[test]
fn attack_06_a_token_is_refused_when_it_is_older_than_max_age() {
    let strict = verifier(SECRET, "algorithms: HS256, max_age: 10m").unwrap();
    let of = |claims: Value| subject(&strict, &signed(&claims)).err();
    assert_eq!(of(json!({"iat": NOW})), None);
    assert_eq!(of(json!({"iat": NOW - 629})), None, "within the leeway");
    assert_eq!(of(json!({"iat": NOW - 630})), Some(JwtFault::TooOld));
    assert_eq!(of(json!({})), Some(JwtFault::TooOld), "it does not say");
    assert_eq!(of(json!({"iat": NOW + 31})), Some(JwtFault::TooEarly));
    assert_eq!(of(json!({"iat": "now"})), Some(JwtFault::Malformed));
}

#[test]
fn attack_20_a_token_without_kid_is_tried_with_few_keys_only() {
    let secret = |number: u8| encode(&[number; 32]);
    let jwk = |number: u8, kid: Option<&str>| match kid {
        Some(kid) => json!({"kty": "oct", "k": secret(number), "kid": kid}),
        None => json!({"kty": "oct", "k": secret(number)}),
    };
    let of = |keys: &[Value]| {
        let jwks = json!({"keys": keys}).to_string();
        verifier(jwks.as_bytes(), "algorithms: HS256")
    };
    let token = |number: u8, header: Value| {
        let claims = json!({"sub": "alice", "exp": NOW + 1});
        with_hmac(unsigned(&header, &claims), &[number; 32])
    };
    let plain = json!({"alg": "HS256"});
    let two = of(&[jwk(1, Some("a")), jwk(2, Some("b"))]).unwrap();
    assert_eq!(subject(&two, &token(1, plain.clone())), Err(JwtFault::Signature));
    assert_eq!(subject(&two, &token(1, json!({"alg": "HS256", "kid": "a"}))).unwrap(), "alice");
    assert_eq!(
        subject(&two, &token(1, json!({"alg": "HS256", "kid": "b"}))),
        Err(JwtFault::Signature)
    );
    let one = of(&[jwk(1, Some("a"))]).unwrap();
    assert_eq!(subject(&one, &token(1, plain.clone())).unwrap(), "alice");
    let unnamed = of(&[jwk(1, None), jwk(2, None)]).unwrap();
    assert_eq!(subject(&unnamed, &token(2, plain)).unwrap(), "alice");
    let three = of(&[jwk(1, None), jwk(2, None), jwk(3, None)]).unwrap_err().to_string();
    assert!(three.contains("3 keys for HS256 without a \"kid\""), "{three}");
}

#[test]
fn requests_without_a_token_pass_unless_one_is_required() {
    let now = Timestamp::from_secs(NOW);
    let mut headers = HeaderMap::new();
    assert!(hs256().claims(&headers, now).unwrap().is_none());
    let strict = verifier(SECRET, "algorithms: HS256, required: true").unwrap();
    assert_eq!(strict.claims(&headers, now).unwrap_err(), JwtFault::Missing);
    headers.insert(AUTHORIZATION, "Basic YTpi".parse().unwrap());
    assert!(hs256().claims(&headers, now).unwrap().is_none());
    headers.append(AUTHORIZATION, "Bearer x".parse().unwrap());
    assert_eq!(hs256().claims(&headers, now).unwrap_err(), JwtFault::Twice);
}

#[test]
fn curves_are_verified_by_jwks_and_by_pem() {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let p256 = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let ed = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let point = p256.public_key().as_ref();
    let jwks = json!({"keys": [
        {"kty": "EC", "crv": "P-256", "kid": "a", "x": encode(&point[1..33]), "y": encode(&point[33..])},
        {"kty": "OKP", "crv": "Ed25519", "kid": "b", "x": encode(ed.public_key().as_ref())},
        {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA"},
    ]});
    let both = verifier(jwks.to_string().as_bytes(), "algorithms: [ES256, EdDSA]").unwrap();
    let sign = |alg: &str, kid: &str| {
        let claims = json!({"sub": "alice", "exp": NOW + 1});
        let message = unsigned(&json!({"alg": alg, "kid": kid}), &claims);
        let proof = match alg {
            "ES256" => p256.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            _ => ed.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encode(&proof))
    };
    assert_eq!(subject(&both, &sign("ES256", "a")).unwrap(), "alice");
    assert_eq!(subject(&both, &sign("EdDSA", "b")).unwrap(), "alice");
    assert_eq!(subject(&both, &sign("ES256", "b")), Err(JwtFault::Signature));
    // A public key must not be used as a secret: everybody could sign with it.
    let forged = unsigned(&json!({"alg": "HS256", "kid": "a"}), &json!({"sub": "eve"}));
    assert_eq!(subject(&both, &with_hmac(forged, point)), Err(JwtFault::Algorithm));

    let mut der = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    der.extend_from_slice(ed.public_key().as_ref());
    let text = base64::engine::general_purpose::STANDARD.encode(&der);
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
    let by_pem = verifier(pem.as_bytes(), "algorithms: EdDSA").unwrap();
    assert_eq!(subject(&by_pem, &sign("EdDSA", "b")).unwrap(), "alice");
}

/// The token was signed with openssl, and the private key was discarded.
#[test]
fn rsa_is_verified_by_jwks_and_by_pem() {
    let token = include_str!("testdata/rs256.jwt").trim();
    for keys in [&include_bytes!("testdata/rs256.pem")[..], include_bytes!("testdata/rs256.jwks")] {
        let verifier = verifier(keys, "algorithms: RS256, require_exp: false").unwrap();
        assert_eq!(subject(&verifier, token).unwrap(), "alice");
        let (message, _) = token.rsplit_once('.').unwrap();
        assert_eq!(subject(&verifier, &format!("{message}.AAAA")), Err(JwtFault::Signature));
    }
}

#[test]
fn files_that_hold_no_key_are_refused() {
    for (keys, fields, why) in [
        (&b"short"[..], "algorithms: HS256", "a secret of 5 bytes"),
        (SECRET, "algorithms: RS256", "neither a JWKS nor a public key"),
        (b"{}", "algorithms: RS256", "without \"keys\""),
        (br#"{"keys": []}"#, "algorithms: RS256", "no supported key in it"),
        (br#"{"keys": [{"kty": "RSA"}]}"#, "algorithms: RS256", "key 0: no \"n\""),
        (SECRET, "algorithms: [HS256, ES256]", "no key for ES256"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----", "algorithms: RS256", "no"),
    ] {
        let error = verifier(keys, fields).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
