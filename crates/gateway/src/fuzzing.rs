//! Properties of the code that reads hostile bytes. The targets in `fuzz/` search for inputs that break
//! them, and ordinary tests check them on the corpora.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_arithmetic,
    reason = "a property panics, and compares roughly"
)]

use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};
use tidegate::config::{PathParameters, RequestRules};

use crate::request_target::RequestTarget;
use crate::{jwt, upstream};

/// A service's response ends where hyper sees it end.
pub fn response(bytes: &[u8]) {
    upstream::fuzz::response(bytes);
}

/// A token is accepted only with a valid signature, and only during its lifetime.
pub fn jwt(bytes: &[u8]) {
    jwt::fuzz::token(bytes);
}

/// The forwarded request is the counted one: the path that a service gets is, in normal form, the path that
/// policies saw, and reading the forwarded request by the same rules gives the same result.
///
/// The first line is a method and a target, and each further line a field.
pub fn asked(bytes: &[u8]) {
    let Some(parts) = parts(bytes) else { return };
    let strict = RequestRules::default();
    for rules in [
        strict,
        strict.keep_encoded_slashes().path_parameters(PathParameters::Keep),
        strict.path_parameters(PathParameters::Strip),
    ] {
        let Ok(read) = RequestTarget::read(&parts, &rules) else { continue };
        let (path, target) = (&*read.path, &*read.path_and_query);
        let normal = |text: &str| tidegate::path_in_normal_form(text.as_bytes()).into_owned();
        assert_eq!(normal(path), path.as_bytes(), "the path is not in normal form");
        assert_eq!(normal(target), path.as_bytes(), "{target} is forwarded, and {path} counted");
        let mut forwarded = parts.clone();
        forwarded.uri = target.parse().expect("a target that was read");
        forwarded.headers.insert(HOST, read.host.text().parse().expect("a host that was read"));
        let again =
            RequestTarget::read(&forwarded, &rules).expect("a forwarded request is not refused");
        assert_eq!((&*again.path, &*again.path_and_query), (path, target));
        assert_eq!(again.host, read.host);
    }
}

fn parts(bytes: &[u8]) -> Option<Parts> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    for line in lines {
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(halves.next()?).ok()?;
        let value = HeaderValue::from_bytes(halves.next()?.trim_ascii()).ok()?;
        request = request.header(name, value);
    }
    Some(request.body(()).ok()?.into_parts().0)
}

#[cfg(test)]
mod tests {
    use tidegate_testkit::fuzz;

    #[test]
    fn responses_end_where_hyper_sees_them_end() {
        fuzz("response", super::response);
    }

    #[test]
    fn tokens_are_believed_only_if_signed_and_in_their_time() {
        fuzz("jwt", super::jwt);
    }

    #[test]
    fn what_is_forwarded_is_what_was_counted() {
        fuzz("asked", super::asked);
    }
}
