//! Public keys in DER: a minimal parser that finds the key in a `SubjectPublicKeyInfo`.

/// The key of a PEM block `PUBLIC KEY`, in the format that `ring` expects.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DerPublicKey<'d> {
    Rsa(&'d [u8]),
    P256(&'d [u8]),
    Ed25519(&'d [u8]),
}

/// Reads a `SubjectPublicKeyInfo`.
pub(super) fn public_key(der: &[u8]) -> Option<DerPublicKey<'_>> {
    let (info, rest) = element(SEQUENCE, der)?;
    if !rest.is_empty() {
        return None;
    }
    let (algorithm, key) = element(SEQUENCE, info)?;
    let (id, parameters) = element(OBJECT_ID, algorithm)?;
    let (bits, rest) = element(BIT_STRING, key)?;
    // The first byte is the number of unused bits in the last one, which must be zero.
    let key = bits.strip_prefix(&[0]).filter(|_| rest.is_empty())?;
    match id {
        RSA => Some(DerPublicKey::Rsa(key)),
        ED25519 if key.len() == 32 => Some(DerPublicKey::Ed25519(key)),
        EC => {
            let (curve, _) = element(OBJECT_ID, parameters)?;
            (curve == P256 && key.len() == 65).then_some(DerPublicKey::P256(key))
        }
        _ => None,
    }
}

/// The contents of an element, and the bytes after it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match der {
        [found, _, ..] if *found != tag => return None,
        [_, short @ 0..=127, rest @ ..] => (usize::from(*short), rest),
        [_, 0x81, length, rest @ ..] => (usize::from(*length), rest),
        [_, 0x82, high, low, rest @ ..] => (usize::from(*high) << 8 | usize::from(*low), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}

const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;
const BIT_STRING: u8 = 0x03;
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
