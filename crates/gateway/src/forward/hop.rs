//! Fields that concern one connection and not the message, and fields that are ours to write.

use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

/// Whether a list of tokens, such as `Connection`, has this one.
pub(crate) fn named(headers: &HeaderMap, list: HeaderName, token: &str) -> bool {
    headers.get_all(list).iter().any(|value| tokens(value).any(|it| it.eq_ignore_ascii_case(token)))
}

/// The tokens of a list.
pub(super) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &str> {
    let list = value.to_str().unwrap_or_default();
    list.split(',').map(str::trim).filter(|token| !token.is_empty())
}

/// The fields that `Connection` names: they go no further either.
#[derive(Debug, Default)]
pub(crate) struct Named(SmallVec<[HeaderName; 2]>);

impl Named {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(CONNECTION).iter().flat_map(tokens);
        let names = values.filter(|token| !KEPT.iter().any(|it| token.eq_ignore_ascii_case(it)));
        Self(names.filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok()).collect())
    }

    pub(crate) fn contains(&self, name: &HeaderName) -> bool {
        self.0.contains(name)
    }
}

/// Removes what concerns only the connection that a response came on.
pub(crate) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        for name in Named::of(headers).0 {
            headers.remove(name);
        }
    }
    for name in OF_A_CONNECTION {
        headers.remove(*name);
    }
}

/// Whether a field of a request is not passed on as it is.
pub(crate) fn is_own(name: &HeaderName) -> bool {
    let name = name.as_str();
    match name {
        "host" | "expect" | "x-real-ip" | "x-forwarded-for" | "x-forwarded-host"
        | "x-forwarded-proto" | "forwarded" => true,
        // Scripts find it among their variables, as the address of a proxy for their own requests.
        "proxy" | "proxy-authorization" => true,
        // To many services an underscore is a hyphen: what we write is not to be forged that way.
        _ if name.contains('_') => OWN.contains(&name.replace('_', "-").as_str()),
        _ => OF_A_CONNECTION.contains(&name),
    }
}

/// Whether a field may come behind a body: nothing that frames or routes the message.
pub(crate) fn may_trail(name: &HeaderName) -> bool {
    let is_framing = matches!(
        name.as_str(),
        "content-length" | "content-encoding" | "content-type" | "authorization" | "trailer"
    );
    !is_framing && !is_own(name)
}

const OF_A_CONNECTION: &[&str] =
    &["connection", "proxy-connection", "keep-alive", "te", "transfer-encoding", "upgrade"];

const OWN: &[&str] = &[
    "connection",
    "content-length",
    "forwarded",
    "host",
    "transfer-encoding",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// A client that names these in `Connection` wants them lost on the way: what a service relies on.
const KEPT: &[&str] = &["authorization", "content-length", "content-type", "cookie", "host"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_goes_with_it() {
        let mut headers = HeaderMap::new();
        headers.append(CONNECTION, "close, X-One".parse().unwrap());
        headers.append(CONNECTION, "x-two,,".parse().unwrap());
        for name in ["x-one", "x-two", "x-three", "keep-alive", "te"] {
            headers.insert(name, "1".parse().unwrap());
        }
        strip(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-three"]);
    }

    #[test]
    fn a_client_cannot_have_credentials_dropped() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, "Authorization, x-one, cookie".parse().unwrap());
        let named = Named::of(&headers);
        assert!(named.contains(&HeaderName::from_static("x-one")));
        assert!(!named.contains(&http::header::AUTHORIZATION));
        assert!(!named.contains(&http::header::COOKIE));
    }

    #[test]
    fn nobody_forges_what_we_write() {
        for name in ["x-forwarded-for", "x_forwarded_for", "x-forwarded_proto", "content_length"] {
            assert!(is_own(&HeaderName::from_static(name)), "{name}");
        }
        for name in ["x-api-key", "x_api_key", "content-length", "te-x"] {
            assert!(!is_own(&HeaderName::from_static(name)), "{name}");
        }
    }
}
