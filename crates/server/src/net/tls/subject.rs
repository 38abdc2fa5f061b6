//! Reads the common name from a client's certificate.

use std::sync::Arc;

/// The common name of a certificate's subject, if it is printable text.
///
/// The certificate has been verified, so it should be well formed; a malformed one has no name.
pub(super) fn common_name(certificate: &[u8]) -> Option<Arc<str>> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut fields, _) = element(certificate, SEQUENCE)?;
    // A version may be present; a serial number, an algorithm, an issuer and a validity always are.
    if let Some((_, rest)) = element(fields, VERSION) {
        fields = rest;
    }
    for tag in [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE] {
        (_, fields) = element(fields, tag)?;
    }
    let (mut names, _) = element(fields, SEQUENCE)?;
    while let Some((set, rest)) = element(names, SET) {
        names = rest;
        let (attribute, _) = element(set, SEQUENCE)?;
        let (kind, value) = element(attribute, OBJECT_ID)?;
        if kind == COMMON_NAME {
            let text = TEXTS.iter().find_map(|tag| element(value, *tag))?.0;
            return std::str::from_utf8(text).ok().filter(|text| is_fit(text)).map(Arc::from);
        }
    }
    None
}

/// The content of an element that must have this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (&length, rest) = rest.split_first()?;
    if first != tag {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // The long form gives the number of length bytes: certificates need three at most.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |sum, digit| sum << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

fn is_fit(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_LENGTH && !text.contains(char::is_control)
}

const INTEGER: u8 = 0x02;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
/// UTF-8, printable and ASCII text.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// Object identifier 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// The upper bound of X.520, `ub-common-name`.
const MAX_LENGTH: usize = 64;

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(name: Option<&str>) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["client.test".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Ships & Co");
        if let Some(name) = name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_found_among_other_names() {
        let name = common_name(&certificate(Some("billing-service")));
        assert_eq!(name.as_deref(), Some("billing-service"));
    }

    #[test]
    fn a_certificate_without_a_fit_name_has_none() {
        for name in [None, Some(""), Some("two\nlines"), Some(&*"x".repeat(65))] {
            assert_eq!(common_name(&certificate(name)), None, "{name:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_changed_anywhere_is_no_accident() {
        let whole = certificate(Some("billing-service"));
        for end in 0..whole.len() {
            let mut bytes = whole.get(..end).unwrap().to_vec();
            assert!(common_name(&bytes).is_none());
            bytes.extend([0xff; 4]);
            let _ = common_name(&bytes);
        }
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0xff;
            let _ = common_name(&bytes);
        }
    }
}
