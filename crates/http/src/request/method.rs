//! Reads the method of a request.

use crate::RequestFault;

/// The method, if every service reads it the same way.
///
/// Methods are case-sensitive, but some services convert them to upper case first. So `post` would be
/// another method here, and `POST` at the service.
///
/// ```
/// use tidegate_http::read_method;
///
/// assert_eq!(read_method(b"POST"), Ok(&b"POST"[..]));
/// assert!(read_method(b"post").is_err());
/// ```
pub fn read_method(method: &[u8]) -> Result<&[u8], RequestFault> {
    let is_plain =
        |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || OTHERS.contains(byte);
    if !method.is_empty() && method.iter().all(is_plain) {
        return Ok(method);
    }
    Err(RequestFault::Method(String::from_utf8_lossy(method).into_owned()))
}

/// The characters of a token besides letters and digits.
const OTHERS: &[u8] = b"!#$%&'*+-.^_`|~";
