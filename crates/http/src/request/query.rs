//! Reads parameters of a query, and refuses those that services read in two ways.

use std::borrow::Cow;

use tidegate_limiter::config::RequestRules;

use super::escape::{decoded, folded, is_well_escaped};
use crate::RequestFault;

/// The first value of a parameter, decoded like a form. A parameter without `=` is empty.
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

/// All values of a parameter, in order.
pub fn query_values<'q>(query: &'q [u8], name: &str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    pairs(query).filter_map(move |(other, value)| {
        // The name is decoded too, as services do: an escaped spelling must not hide the parameter.
        let is_it = decoded(other, b' ').as_ref() == name.as_bytes();
        is_it.then(|| decoded(value, b' '))
    })
}

/// The single value of a parameter, if there is one.
///
/// Refuses a parameter that occurs twice, and a query in which only some services find it: because of a
/// semicolon between parameters, or of a name that frameworks fold into this one, such as `user[]`.
///
/// ```
/// use tidegate::config::RequestRules;
/// use tidegate_http::only_parameter;
///
/// let rules = RequestRules::default();
/// let user = only_parameter(b"user=42&page=2", "user", &rules)?;
/// assert_eq!(user.as_deref(), Some(&b"42"[..]));
/// assert!(only_parameter(b"user=42&user=43", "user", &rules).is_err());
/// # Ok::<(), tidegate_http::RequestFault>(())
/// ```
pub fn only_parameter<'q>(
    query: &'q [u8],
    name: &str,
    rules: &RequestRules,
) -> Result<Option<Cow<'q, [u8]>>, RequestFault> {
    let (mut found, lenient) = (None, rules.keeps_odd_queries());
    let fault = |why| Err(RequestFault::Parameter(format!("query:{name}"), why));
    if query.is_empty() {
        return Ok(None);
    }
    if !lenient && query.contains(&b';') {
        return fault("may follow a semicolon: expected & between parameters");
    }
    // A name with brackets is itself one of several that frameworks fold together.
    let folds = !lenient && !name.contains('[');
    let wanted = if folds { folded(name.as_bytes()) } else { Vec::new() };
    for (other, value) in pairs(query) {
        if decoded(other, b' ').as_ref() == name.as_bytes() {
            if found.is_some() {
                return Err(RequestFault::Twice(format!("query:{name}")));
            }
            if !lenient && !is_well_escaped(value) {
                return fault("has a % without two hexadecimal digits after it");
            }
            let value = decoded(value, b' ');
            if !lenient && std::str::from_utf8(&value).is_err() {
                // Many services replace all invalid bytes by the same mark, so different values become
                // equal.
                return fault("is not UTF-8");
            }
            found = Some(value);
        } else if folds && folded(other) == wanted {
            return fault("occurs in another spelling: expected its own name");
        }
    }
    // Go treats an empty parameter as absent.
    Ok(found.filter(|value| !value.is_empty()))
}

fn pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| {
        let end = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(end);
        (name, value.get(1..).unwrap_or_default())
    })
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

    #[test]
    fn attack_22_a_parameter_in_another_spelling_is_refused() {
        let rules = RequestRules::default();
        let only = |query: &'static str, rules| only_parameter(query.as_bytes(), "user_id", rules);
        for query in [
            "a=1;user_id=bob",
            "user_id[]=bob",
            "user_id%5B%5D=bob",
            "user_id[a]=bob",
            "user.id=bob",
            "user+id=bob",
            "%20user_id=bob",
            "User_Id=bob",
            "[user_id]=bob",
            "user_id%00x=bob",
            "user_id=bob&user_id=bob",
            "user_id=%zz",
            "user_id=%ff",
            "user_id=bob&user_id[]=eve",
        ] {
            assert!(only(query, &rules).is_err(), "{query}");
        }
        let lenient = rules.keep_odd_queries();
        for query in ["a=1;user_id=bob", "user_id[]=bob"] {
            assert_eq!(only(query, &lenient), Ok(None), "{query}");
        }
        for query in ["", "user_id=", "user_id", "user=1", "user_ids=1&x=%3B", "a[]=1&a[]=2", "=&&"]
        {
            assert_eq!(only(query, &rules), Ok(None), "{query}");
        }
        assert_eq!(only("x[]=1&%75ser_id=b%6Fb", &rules).unwrap().as_deref(), Some(&b"bob"[..]));
        let filter = only_parameter(b"f[a]=1&f[b]=2", "f[a]", &rules).unwrap();
        assert_eq!(filter.as_deref(), Some(&b"1"[..]));
    }
}
