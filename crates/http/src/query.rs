//! Reading the query of a URI.

use std::borrow::Cow;

/// The first value of a parameter, decoded as forms are. One without `=` is empty.
///
/// ```
/// use tidegate_http::query_value;
///
/// let query = b"page=2&user=x%40y+z";
/// assert_eq!(query_value(query, "user").as_deref(), Some(&b"x@y z"[..]));
/// assert_eq!(query_value(query, "User"), None);
/// ```
pub fn query_value<'q>(query: &'q [u8], name: &str) -> Option<Cow<'q, [u8]>> {
    query_values(query, name).next()
}

/// The same for all of them, in their order.
pub fn query_values<'q>(query: &'q [u8], name: &str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs.filter_map(move |pair| {
        let mut halves = pair.splitn(2, |byte| *byte == b'=');
        // The name too: whoever reads it behind us decodes it, and a spelling must not hide it.
        let is_it = decoded(halves.next()?).as_ref() == name.as_bytes();
        is_it.then(|| decoded(halves.next().unwrap_or_default()))
    })
}

/// What is no escape stands for itself.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let (mut decoded, mut rest) = (Vec::with_capacity(text.len()), text);
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match (byte, tail) {
            (b'+', _) => (b' ', tail),
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, after),
                _ => (b'%', tail),
            },
            _ => (*byte, tail),
        };
        decoded.push(byte);
        rest = tail;
    }
    Cow::Owned(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_decoded_and_never_panics() {
        for (query, expected) in [
            ("id=42", Some(&b"42"[..])),
            ("a=b&id=x%40y+z&id=2", Some(b"x@y z")),
            ("%69d=7", Some(b"7")),
            ("id=a=b", Some(b"a=b")),
            ("id=", Some(b"")),
            ("id", Some(b"")),
            ("id=%4", Some(b"%4")),
            ("id=%zz%", Some(b"%zz%")),
            ("Id=1", None),
            ("", None),
            ("&&=&%", None),
        ] {
            assert_eq!(query_value(query.as_bytes(), "id").as_deref(), expected, "{query}");
        }
    }
}
