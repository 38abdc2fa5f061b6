//! What gRPC adds to HTTP: its content type, and the form of its messages.

use std::fmt::Write as _;

use http::HeaderValue;

/// Whether a content type is `application/grpc`, possibly with a format or parameters. A longer type that
/// only begins with it, such as `application/grpc-web`, is another protocol.
///
/// ```
/// use tidegate_http::is_grpc_type;
///
/// assert!(is_grpc_type(b"application/grpc") && is_grpc_type(b"application/grpc+proto"));
/// assert!(!is_grpc_type(b"application/grpc-web+proto"));
/// ```
pub fn is_grpc_type(kind: &[u8]) -> bool {
    matches!(kind.strip_prefix(b"application/grpc"), Some([] | [b'+' | b';', ..]))
}

/// The value of `grpc-message`: percent signs and everything but printable ASCII in hexadecimal.
///
/// ```
/// use tidegate_http::grpc_message;
///
/// assert_eq!(grpc_message("100 % of\nnaïve"), "100 %25 of%0Ana%C3%AFve");
/// ```
pub fn grpc_message(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'$' | b'&'..=b'~' => encoded.push(char::from(byte)),
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    // Only printable ASCII is left, so this does not fail.
    HeaderValue::try_from(encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
}
