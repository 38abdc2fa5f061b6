//! Reads header fields, and refuses those that services read in two ways.

use http::{HeaderMap, HeaderValue};
use tidegate_limiter::config::RequestRules;

use crate::RequestFault;

/// The values of a field, in order, trimmed: HTTP/2 does not remove spaces around them.
pub(super) fn field_values<'r>(
    headers: &'r HeaderMap,
    name: &str,
) -> impl Iterator<Item = &'r [u8]> + use<'r> {
    headers.get_all(name).iter().map(|value| HeaderValue::as_bytes(value).trim_ascii())
}

/// The single value of a field, if there is one.
///
/// Refuses a field that occurs twice, even with equal values: a service may join the two into a third
/// value. Refuses a request that also has the field in its other spelling, with `_` for `-`, unless the
/// rules allow underscores. Refuses bytes beyond ASCII: some services do not accept them as text, and some
/// treat a few of them as spaces. Refuses a comma in `X-Api-Key`: a proxy may have joined two fields. An
/// empty value counts as absent, as in Go.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use tidegate::config::RequestRules;
/// use tidegate_http::only_field;
///
/// let (mut headers, rules) = (HeaderMap::new(), RequestRules::default());
/// headers.insert("x-user", HeaderValue::from_static(" 42 "));
/// assert_eq!(only_field(&headers, "x-user", &rules)?, Some(&b"42"[..]));
/// headers.append("x-user", HeaderValue::from_static("42"));
/// assert!(only_field(&headers, "x-user", &rules).is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
pub fn only_field<'r>(
    headers: &'r HeaderMap,
    name: &str,
    rules: &RequestRules,
) -> Result<Option<&'r [u8]>, RequestFault> {
    let mut values = field_values(headers, name);
    let value = values.next();
    if values.next().is_some() {
        return Err(RequestFault::Twice(format!("header:{name}")));
    }
    if !rules.keeps_underscores() {
        refuse_other_spelling(headers, name)?;
    }
    let value = value.filter(|value| !value.is_empty());
    let is_odd = |value: &[u8]| {
        !value.is_ascii() || name.eq_ignore_ascii_case("x-api-key") && value.contains(&b',')
    };
    match value {
        Some(value) if is_odd(value) => Err(RequestFault::Field(format!("header:{name}"))),
        value => Ok(value),
    }
}

/// Refuses a field that differs from this one only by underscores for hyphens: CGI, WSGI and others that
/// put fields into variables treat both as the same field.
pub fn refuse_other_spelling(headers: &HeaderMap, name: &str) -> Result<(), RequestFault> {
    if !name.contains(['-', '_']) {
        return Ok(());
    }
    let is_other =
        |other: &&str| is_same_variable(name, other) && !other.eq_ignore_ascii_case(name);
    match headers.keys().map(http::HeaderName::as_str).find(is_other) {
        Some(other) => Err(RequestFault::Spelling(format!("header:{name}"), other.to_owned())),
        None => Ok(()),
    }
}

/// Whether two field names are equal for a service that treats underscores as hyphens.
///
/// ```
/// use tidegate_http::is_same_variable;
///
/// assert!(is_same_variable("x-api-key", "X_Api-Key"));
/// ```
pub fn is_same_variable(one: &str, other: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.len() == other.len() && one.bytes().map(fold).eq(other.bytes().map(fold))
}

/// The `Content-Length` of a request, if it has one.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::CONTENT_LENGTH};
/// use tidegate_http::content_length;
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(content_length(&headers)?, None);
/// headers.insert(CONTENT_LENGTH, HeaderValue::from_static("42"));
/// assert_eq!(content_length(&headers)?, Some(42));
/// headers.insert(CONTENT_LENGTH, HeaderValue::from_static("+42"));
/// assert!(content_length(&headers).is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
pub fn content_length(headers: &HeaderMap) -> Result<Option<u64>, RequestFault> {
    let mut lengths = headers.get_all(http::header::CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(None) };
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let number = length.to_str().ok().filter(is_number).and_then(|text| text.parse().ok());
    match (number, lengths.next()) {
        (Some(number), None) => Ok(Some(number)),
        _ => Err(RequestFault::Length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn attack_04_a_field_in_its_other_spelling_is_refused() {
        let rules = RequestRules::default();
        let forged = headers(&[("x_api-key", "bob")]);
        let fault = only_field(&forged, "x-api-key", &rules).unwrap_err();
        assert_eq!(fault.attribute(), Some("header:x-api-key"));
        assert_eq!(only_field(&forged, "x-api-key", &rules.keep_underscores()), Ok(None));
        assert_eq!(only_field(&forged, "x-other", &rules), Ok(None));
        let both = headers(&[("x-user", "a"), ("x_user", "b")]);
        for name in ["x-user", "X-User", "x_user"] {
            assert!(only_field(&both, name, &rules).is_err(), "{name}");
        }
        let padded = headers(&[("x-user", " bob\t")]);
        assert_eq!(only_field(&padded, "X-User", &rules), Ok(Some(&b"bob"[..])));
    }

    #[test]
    fn a_field_has_a_value_that_every_service_reads_alike() {
        let rules = RequestRules::default();
        let mut odd = HeaderMap::new();
        for value in [&b"bob\xa0"[..], b"\xff", b"\xc3\xa9", b"bob,alice"] {
            odd.insert("x-api-key", HeaderValue::from_bytes(value).unwrap());
            let fault = only_field(&odd, "x-api-key", &rules).unwrap_err();
            assert_eq!(fault.attribute(), Some("header:x-api-key"));
        }
        let listed = headers(&[("x-user", "bob,alice"), ("x-none", " ")]);
        assert_eq!(only_field(&listed, "x-user", &rules), Ok(Some(&b"bob,alice"[..])));
        assert_eq!(only_field(&listed, "x-none", &rules), Ok(None));
    }

    #[test]
    fn attack_18_a_length_is_one_number() {
        for (fields, expected) in [
            (&[][..], Ok(None)),
            (&["5"], Ok(Some(5))),
            (&["0005"], Ok(Some(5))),
            (&["5", "5"], Err(RequestFault::Length)),
            (&["5", "0005"], Err(RequestFault::Length)),
            (&[""], Err(RequestFault::Length)),
            (&["+5"], Err(RequestFault::Length)),
            (&["5, 5"], Err(RequestFault::Length)),
            (&["99999999999999999999"], Err(RequestFault::Length)),
        ] {
            let mut headers = HeaderMap::new();
            for value in fields {
                headers.append("content-length", HeaderValue::from_static(value));
            }
            assert_eq!(content_length(&headers), expected, "{fields:?}");
        }
    }
}
