//! Reading cookies.

use http::header::{COOKIE, HeaderMap};

/// The values of a cookie, in their order. Spaces around a name or a value are part of neither, as
/// whoever reads it behind us has it: a spelling must not hide it.
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
