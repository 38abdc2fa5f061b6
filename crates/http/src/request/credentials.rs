//! Reads bearer tokens and API keys.

use std::borrow::Cow;

use http::HeaderMap;
use tidegate_limiter::config::RequestRules;

use super::field::{field_values, only_field};
use crate::RequestFault;

/// The token of `Authorization: Bearer`; `None` for another scheme.
///
/// A scheme ends with the first space or tab, since some services split there and others at a space.
/// `Bearer` must be followed by one space and one token, or the credentials are refused: only some services
/// find a token after a tab or two spaces. Bytes beyond ASCII are refused in any scheme, since Python
/// treats some of them as spaces.
///
/// ```
/// use tidegate_http::bearer;
///
/// assert_eq!(bearer(b"bearer abc "), Ok(Some(&b"abc"[..])));
/// assert_eq!(bearer(b"Basic abc"), Ok(None));
/// assert!(bearer(b"Bearer a b").is_err());
/// ```
pub fn bearer(credentials: &[u8]) -> Result<Option<&[u8]>, RequestFault> {
    if !credentials.is_ascii() {
        return Err(RequestFault::Bearer);
    }
    let credentials = credentials.trim_ascii();
    let (scheme, _) = split(credentials);
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(None);
    }
    match credentials.get(scheme.len()..) {
        Some([b' ', token @ ..]) if is_token(token) => Ok(Some(token)),
        _ => Err(RequestFault::Bearer),
    }
}

/// Whether this is a token by RFC 6750. Spring accepts no other.
fn is_token(text: &[u8]) -> bool {
    let mut token = text;
    while let [rest @ .., b'='] = token {
        token = rest;
    }
    let is_fit = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    !token.is_empty() && token.iter().all(is_fit)
}

/// The bearer token of a request, if it has one. Refuses two `Authorization` fields, even if they are
/// equal, and any other scheme, if the rules require it.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
/// use tidegate::config::RequestRules;
/// use tidegate_http::only_bearer;
///
/// let (mut headers, rules) = (HeaderMap::new(), RequestRules::default());
/// headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
/// assert_eq!(only_bearer(&headers, &rules)?, Some(&b"abc"[..]));
/// headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer abc"));
/// assert!(only_bearer(&headers, &rules).is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
pub fn only_bearer<'r>(
    headers: &'r HeaderMap,
    rules: &RequestRules,
) -> Result<Option<&'r [u8]>, RequestFault> {
    let mut fields = field_values(headers, "authorization");
    let (credentials, other) = (fields.next(), fields.next());
    if other.is_some() {
        return Err(RequestFault::twice("header:authorization"));
    }
    let token = credentials.map(bearer).transpose()?.flatten();
    if token.is_none() && credentials.is_some() && rules.refuses_other_schemes() {
        return Err(RequestFault::Scheme);
    }
    Ok(token)
}

/// The token of `Authorization: Bearer`, else `X-API-Key`. If a request has both, they must be equal.
pub(super) fn api_key<'r>(
    headers: &'r HeaderMap,
    rules: &RequestRules,
) -> Result<Option<&'r [u8]>, RequestFault> {
    let token = only_bearer(headers, rules)?;
    let key = only_field(headers, "x-api-key", rules)?;
    match (token, key) {
        (Some(token), Some(key)) if token != key => Err(RequestFault::twice("api_key")),
        (token, key) => Ok(token.or(key)),
    }
}

/// `Authorization` in one spelling: the usual spelling of a well-known scheme, and one space.
pub(super) fn authorization<'r>(
    headers: &'r HeaderMap,
    rules: &RequestRules,
) -> Result<Option<Cow<'r, [u8]>>, RequestFault> {
    only_bearer(headers, rules)?;
    let Some(credentials) = only_field(headers, "authorization", rules)? else { return Ok(None) };
    let (scheme, rest) = split(credentials);
    let known = KNOWN.iter().find(|known| scheme.eq_ignore_ascii_case(known));
    let scheme = known.copied().unwrap_or(scheme);
    if rest.is_empty() {
        return Ok(Some(Cow::Owned(scheme.to_vec())));
    }
    let spelled = [scheme, b" ", rest].concat();
    Ok(Some(if spelled == credentials { Cow::Borrowed(credentials) } else { Cow::Owned(spelled) }))
}

/// The scheme, and the rest after it.
fn split(credentials: &[u8]) -> (&[u8], &[u8]) {
    let credentials = credentials.trim_ascii();
    let end = credentials.iter().position(|byte| matches!(byte, b' ' | b'\t'));
    let (scheme, rest) = credentials.split_at(end.unwrap_or(credentials.len()));
    (scheme, rest.trim_ascii())
}

const KNOWN: &[&[u8]] = &[b"Bearer", b"Basic", b"Digest", b"Negotiate"];

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn attack_05_a_token_follows_one_space() {
        for credentials in ["Bearer t", "bearer t", "BEARER t ", "\tBearer t"] {
            assert_eq!(bearer(credentials.as_bytes()), Ok(Some(&b"t"[..])), "{credentials}");
        }
        for credentials in [
            "Bearer",
            "Bearer ",
            "bearer\t",
            "Bearer a b",
            "Bearer a\tb",
            "Bearer \u{a0}t",
            "Bearer\tt",
            "Bearer t;",
            "Bearer t,t",
            "Bearer \"t\"",
            "Bearer =",
            "Bearer  t",
            "Bearer \tt",
            "\u{a0}Bearer t",
            "\u{85}Bearer t",
            "Basic \u{e9}",
        ] {
            assert_eq!(bearer(credentials.as_bytes()), Err(RequestFault::Bearer), "{credentials}");
        }
        for credentials in ["", "Basic x", "Bear", "Bearer:x", "token"] {
            assert_eq!(bearer(credentials.as_bytes()), Ok(None), "{credentials}");
        }
    }

    #[test]
    fn attack_05_other_schemes_are_refused_where_it_is_said() {
        let rules = RequestRules::default();
        for (credentials, strict) in [
            ("Basic x", Err(RequestFault::Scheme)),
            ("x", Err(RequestFault::Scheme)),
            ("Bearer x", Ok(Some(&b"x"[..]))),
        ] {
            let headers = headers(&[("authorization", credentials)]);
            assert!(only_bearer(&headers, &rules).is_ok(), "{credentials}");
            assert_eq!(only_bearer(&headers, &rules.refuse_other_schemes()), strict);
        }
        let none = HeaderMap::new();
        assert_eq!(only_bearer(&none, &rules.refuse_other_schemes()), Ok(None));
    }

    #[test]
    fn attack_05_authorization_has_one_spelling() {
        let rules = RequestRules::default();
        for (credentials, expected) in [
            ("bearer abc", "Bearer abc"),
            ("Bearer abc", "Bearer abc"),
            ("BASIC   abc", "Basic abc"),
            ("AWS4-HMAC-SHA256 a=b", "AWS4-HMAC-SHA256 a=b"),
            ("plain", "plain"),
        ] {
            let headers = headers(&[("authorization", credentials)]);
            let value = authorization(&headers, &rules).unwrap().unwrap();
            assert_eq!(&*value, expected.as_bytes());
        }
    }
}
