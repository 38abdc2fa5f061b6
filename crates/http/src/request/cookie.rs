//! Reads cookies, and refuses those that services read in two ways.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::COOKIE;
use tidegate_limiter::config::RequestRules;

use super::escape::{decoded, folded, is_well_escaped};
use crate::RequestFault;

/// The values of a cookie, in order. Spaces around names and values are trimmed as leniently as any
/// backend does: a cookie that it accepts must not be missing here.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::COOKIE};
/// use tidegate_http::cookie_values;
///
/// let mut headers = HeaderMap::new();
/// headers.insert(COOKIE, HeaderValue::from_static("a=1; sid =2"));
/// assert_eq!(cookie_values(&headers, "sid").next(), Some(&b"2"[..]));
/// ```
pub fn cookie_values<'r>(headers: &'r HeaderMap, name: &str) -> impl Iterator<Item = &'r [u8]> {
    let fields = headers.get_all(COOKIE).iter();
    let pairs = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        let is_it = halves.next()?.trim_ascii() == name.as_bytes();
        halves.next().filter(|_| is_it).map(<[u8]>::trim_ascii)
    })
}

/// The single value of a cookie, if there is one, with its escapes decoded: some services decode them.
///
/// Refuses a cookie that occurs twice, and a value that services read in two ways: with quotes, a
/// backslash, a space or a comma, or with a `%` that is not an escape. Refuses fields in which only some
/// services find such a cookie: because of a separator that is not a semicolon, another spelling of its
/// name, or its name once more without a value.
///
/// ```
/// use http::{HeaderMap, HeaderValue, header::COOKIE};
/// use tidegate::config::RequestRules;
/// use tidegate_http::only_cookie;
///
/// let (mut headers, rules) = (HeaderMap::new(), RequestRules::default());
/// headers.insert(COOKIE, HeaderValue::from_static("sid=a%40b"));
/// assert_eq!(only_cookie(&headers, "sid", &rules)?.as_deref(), Some(&b"a@b"[..]));
/// headers.insert(COOKIE, HeaderValue::from_static("sid=1; sid=2"));
/// assert!(only_cookie(&headers, "sid", &rules).is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
pub fn only_cookie<'r>(
    headers: &'r HeaderMap,
    name: &str,
    rules: &RequestRules,
) -> Result<Option<Cow<'r, [u8]>>, RequestFault> {
    if !headers.contains_key(COOKIE) {
        return Ok(None);
    }
    let mut values = cookie_values(headers, name);
    let value = values.next();
    if values.next().is_some() {
        return Err(RequestFault::Twice(format!("cookie:{name}")));
    }
    if rules.keeps_odd_cookies() {
        return Ok(value.map(Cow::Borrowed));
    }
    let fault = |why| Err(RequestFault::Cookie(format!("cookie:{name}"), why));
    if headers.get_all(COOKIE).iter().any(|field| is_unclear(field.as_bytes())) {
        return fault("is in a field that services read in two ways");
    }
    let wanted = folded(name.as_bytes());
    let fields = headers.get_all(COOKIE).iter();
    let names = fields.flat_map(|field| lenient_names(field.as_bytes()));
    if names.filter(|other| folded(other) == wanted).count() > usize::from(value.is_some()) {
        return fault("occurs in another spelling: expected its own name, after a semicolon");
    }
    let Some(value) = value else { return Ok(None) };
    let mut fields = headers.get_all(COOKIE).iter();
    if fields.any(|field| bare_words(field.as_bytes()).any(|word| folded(word) == wanted)) {
        // To some services that is the same cookie with an empty value, and the first one counts.
        return fault("also occurs without a value");
    }
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',');
    if !value.iter().all(is_plain) || !is_well_escaped(value) {
        return fault("has characters that services read in two ways");
    }
    let value = decoded(value, b'+');
    if value.starts_with(b"j:") || std::str::from_utf8(&value).is_err() {
        // Express parses such a value as JSON.
        return fault("has a value that services read in two ways");
    }
    Ok(Some(value).filter(|value| !value.is_empty()))
}

/// Whether services may disagree where a cookie begins or ends: quotes hide a semicolon from some of them,
/// Go does not treat a tab as a space, and some ignore all cookies of a field with bytes beyond ASCII.
fn is_unclear(field: &[u8]) -> bool {
    let mut is_quoted = false;
    let hides = |byte: &u8| {
        is_quoted ^= *byte == b'"';
        is_quoted && *byte == b';'
    };
    !field.is_ascii()
        || field.contains(&b'\t')
        || field.iter().any(hides)
        || field.contains(&b'"') && field.contains(&b'\\')
}

/// The texts before each `=`, wherever a service could begin to read a cookie.
fn lenient_names(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_separator = |byte: &u8| matches!(byte, b';' | b',' | b'"' | b' ' | b'\t');
    let mut rest = field;
    std::iter::from_fn(move || {
        loop {
            let end = rest.iter().position(|byte| is_separator(byte) || *byte == b'=')?;
            let (name, behind) = rest.split_at(end);
            let value = behind.trim_ascii_start();
            if value.first() != Some(&b'=') {
                rest = behind.get(1..).unwrap_or_default();
                continue;
            }
            let value = value.get(1..).unwrap_or_default().trim_ascii_start();
            let end = value.iter().position(is_separator).unwrap_or(value.len());
            rest = value.get(end..).unwrap_or_default();
            return Some(name);
        }
    })
}

/// The words without a `=`, wherever a service could begin to read a cookie.
fn bare_words(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_separator = |byte: &u8| matches!(byte, b';' | b',' | b'"' | b' ' | b'\t');
    let pairs = field.split(|byte| *byte == b';').filter(|pair| !pair.trim_ascii().is_empty());
    pairs.flat_map(move |pair| {
        let end = pair.iter().position(|byte| *byte == b'=');
        let (name, value) = pair.split_at(end.unwrap_or(pair.len()));
        // The last word before a `=` is a name with a value.
        let words = name.trim_ascii_end().split(is_separator);
        let count = words.clone().count().saturating_sub(usize::from(end.is_some()));
        words.take(count).chain(value.split(is_separator).skip(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(fields: &[&str], rules: &RequestRules) -> Result<Option<String>, RequestFault> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(COOKIE, http::HeaderValue::from_bytes(field.as_bytes()).unwrap());
        }
        let value = only_cookie(&headers, "sid", rules)?;
        Ok(value.map(|value| String::from_utf8(value.into_owned()).unwrap()))
    }

    #[test]
    fn attack_17_a_cookie_that_services_read_in_two_ways_is_refused() {
        let rules = RequestRules::default();
        for field in [
            r#"sid="abc""#,
            r#"sid="\141bc""#,
            r"sid=a\142c",
            "sid=a b",
            "sid=a,b",
            "sid=%6",
            "sid=\u{e9}",
            "a=1 sid=abc",
            "a=1,sid=abc",
            "a=1\tsid = abc",
            "SID=abc",
            "%73id=abc",
            "sid[]=abc",
            r#"a="x; sid=abc"; sid=abc"#,
            "sid=abc; sid=abc",
            "sid=abc;a=1,sid=x",
            r#"a="b"sid=abc"#,
            r#"a="; sid=abc; b=""#,
            r#"a="\"; sid=abc"#,
            "a=\u{e9}; sid=abc",
            "sid=j:1",
            "sid=\tabc",
            "sid=j%3A1",
            "sid=%ff",
            "sid; sid=abc",
            "sid;abc; a=1; sid=abc",
            "sid=abc;SID",
            "a=b, sid; sid=abc",
            "a=b sid; sid=abc",
            "sid a=b; sid=abc",
        ] {
            assert!(only(&[field], &rules).is_err(), "{field}");
        }
        assert!(only(&["sid=a", "sid=a"], &rules).is_err());
        assert!(only(&["sid;abc", "sid=a"], &rules).is_err());
        for field in ["sid=abc", "sid=%61bc", " sid = abc ;b=c", "a=b; sid=%61b%63"] {
            assert_eq!(only(&[field], &rules).unwrap().as_deref(), Some("abc"), "{field}");
        }
        let lenient = rules.keep_odd_cookies();
        assert_eq!(only(&[r#"sid="a""#], &lenient).unwrap().as_deref(), Some(r#""a""#));
        assert_eq!(only(&["sid=s%3Aabc.x+/="], &rules).unwrap().as_deref(), Some("s:abc.x+/="));
        for field in [
            "",
            "sid",
            "sid;abc",
            "sid=",
            "a=sid",
            "a=b sid; c",
            "xsid=1; sid2=2",
            "a=\"b, c\"",
            "=;;=",
        ] {
            assert_eq!(only(&[field], &rules), Ok(None), "{field}");
        }
        assert_eq!(only(&["a=1", "sid=x; b=2"], &rules).unwrap().as_deref(), Some("x"));
    }
}
