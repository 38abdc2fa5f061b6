//! `GET /check?userId=ID`, for those whose configuration is an RLaaS file.

use tidegate::{Cost, Plan, Store};

use super::problem::Refusal;
use super::request::bounded;
use super::{Response, check};
use crate::App;

/// 200 or 429, as there, with our body and headers.
pub(super) async fn answer<S: Store>(app: &App<S>, plan: &Plan, query: Option<&str>) -> Response {
    let Some(user) = query.and_then(user_id) else {
        return Refusal::bad(Some("userId"), "`userId` is missing: expected /check?userId=ID")
            .into();
    };
    if let Err(refusal) = bounded(&user, || "userId".to_owned()) {
        return refusal.into();
    }
    check::respond(app, &plan.charges(&[("userId", user)], Cost::ONE)).await
}

/// The parameter, decoded as forms are.
fn user_id(query: &str) -> Option<Vec<u8>> {
    let values = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = values.into_iter().find(|(name, _)| *name == "userId")?;
    let (mut decoded, mut rest) = (Vec::with_capacity(value.len()), value.as_bytes());
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
    Some(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_is_decoded_and_never_panics() {
        for (query, expected) in [
            ("userId=42", Some(&b"42"[..])),
            ("a=b&userId=x%40y+z&userId=2", Some(b"x@y z")),
            ("userId=", Some(b"")),
            ("userId=%4", Some(b"%4")),
            ("userId=%zz%", Some(b"%zz%")),
            ("userid=1", None),
            ("userId", None),
            ("", None),
        ] {
            assert_eq!(user_id(query).as_deref(), expected, "{query}");
        }
    }
}
