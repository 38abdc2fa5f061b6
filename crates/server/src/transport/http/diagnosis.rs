//! Finds out what is wrong with a body that could not be read. Slow, and used only for refusals.

use serde_json::{Map, Value};
use tidegate::MAX_COUNT;

use super::refusal::HttpRefusal;
use crate::transport::brief;

/// Finds the member that made reading a check or a refund fail; `units` is the name of its count.
#[cold]
pub(super) fn diagnose(body: &[u8], units: &str, error: &serde_json::Error) -> HttpRefusal {
    let members = match members(body, EITHER) {
        Ok(members) => members,
        Err(refusal) => return refusal,
    };
    let found = members.iter().find_map(|(name, value)| fault(name, value, units));
    found.unwrap_or_else(|| unnamed_fault(error, EITHER))
}

/// The same for a batch.
#[cold]
pub(super) fn diagnose_batch(body: &[u8], error: &serde_json::Error) -> HttpRefusal {
    let members = match members(body, BATCH) {
        Ok(members) => members,
        Err(refusal) => return refusal,
    };
    let fault = |(name, value): (&String, &Value)| match (name.as_str(), value) {
        ("checks", Value::Array(_)) => None,
        ("checks", _) => Some(wrong_member(name, value, "a list of checks")),
        _ => Some(unknown_member(name, "checks")),
    };
    let found = members.iter().find_map(fault);
    let missing = !members.contains_key("checks");
    found.unwrap_or_else(|| match missing {
        true => {
            HttpRefusal::invalid(Some("checks"), format!("`checks` is missing: expected {BATCH}"))
        }
        false => unnamed_fault(error, BATCH),
    })
}

/// Checks a key's length. Keys are hashed, never stored: this bounds time, not memory.
pub(super) fn bounded(value: &[u8], member: impl FnOnce() -> String) -> Result<(), HttpRefusal> {
    match value.len() {
        0..=MAX_KEY => Ok(()),
        length => {
            let member = member();
            let detail = format!("`{member}` has {length} bytes: expected at most {MAX_KEY}");
            Err(HttpRefusal::invalid(Some(&member), detail))
        }
    }
}

pub(crate) fn wrong_member(member: &str, value: impl ToString, expected: &str) -> HttpRefusal {
    let value = brief(&value.to_string());
    HttpRefusal::invalid(Some(member), format!("`{member}` is {value}: expected {expected}"))
}

pub(crate) fn expected_count() -> String {
    format!("a whole number from 0 to {MAX_COUNT}")
}

pub(crate) fn members(body: &[u8], expected: &str) -> Result<Map<String, Value>, HttpRefusal> {
    let detail = match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => return Ok(members),
        Ok(other) => format!("the body is {}: expected {expected}", brief(&other.to_string())),
        Err(error) => format!("the body is not JSON ({error}): expected {expected}"),
    };
    Err(HttpRefusal::invalid(None, detail))
}

fn fault(name: &str, value: &Value, units: &str) -> Option<HttpRefusal> {
    match (name, value) {
        ("policy" | "key" | "attributes", Value::Null) => None,
        ("policy" | "key", Value::String(_)) => None,
        ("policy" | "key", _) => Some(wrong_member(name, value, "a string")),
        (name, value) if name == units => {
            let is_right = value.is_null() || value.as_f64().is_some_and(is_count);
            (!is_right).then(|| wrong_member(name, value, &expected_count()))
        }
        ("attributes", Value::Object(attributes)) => {
            let (name, value) =
                attributes.iter().find(|(_, value)| !value.is_string() && !value.is_null())?;
            Some(wrong_member(&format!("attributes.{}", brief(name)), value, "a string"))
        }
        ("attributes", _) => Some(wrong_member(name, value, "an object whose values are strings")),
        _ => Some(unknown_member(name, &format!("policy, key, attributes or {units}"))),
    }
}

/// A count that is written as 3.0 is valid too.
fn is_count(number: f64) -> bool {
    number.fract() == 0.0 && (0.0..=MAX_COUNT as f64).contains(&number)
}

pub(crate) fn unknown_member(name: &str, expected: &str) -> HttpRefusal {
    let name = brief(name);
    HttpRefusal::invalid(Some(&name), format!("`{name}` is unknown: expected {expected}"))
}

/// The refusal if each member is valid on its own, so one of them must occur twice.
pub(crate) fn unnamed_fault(error: &serde_json::Error, expected: &str) -> HttpRefusal {
    let text = error.to_string();
    let member = text.strip_prefix("duplicate field `").and_then(|rest| rest.split_once('`'));
    // The first of the two can be the invalid one. Then the text quotes it, so the text can be long.
    let (what, line, column) = (brief(&text), error.line(), error.column());
    let place =
        if what == text { String::new() } else { format!(" at line {line} column {column}") };
    HttpRefusal::invalid(
        member.map(|(name, _)| name),
        format!("{what}{place}: expected {expected}"),
    )
}

const MAX_KEY: usize = 4 << 10;
const EITHER: &str = r#"{"policy": "...", "key": "..."} or {"attributes": {...}}"#;
const BATCH: &str = r#"{"checks": [...]}"#;

#[cfg(test)]
mod tests {
    use super::super::request::{HttpQuestion, read_checks};

    fn refusal(body: &str) -> String {
        HttpQuestion::read_check(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_repeated_member_is_refused() {
        let detail = refusal(r#"{"policy": "p", "key": "a", "key": "b"}"#);
        assert!(detail.contains("duplicate field `key`"), "{detail}");
    }

    #[test]
    fn refusals_stay_short_whatever_was_sent() {
        let long = "é".repeat(20_000);
        for body in [
            format!(r#"{{"{long}": 1}}"#),
            format!(r#"{{"cost": "{long}"}}"#),
            format!(r#"{{"attributes": {{"{long}": 1}}}}"#),
            format!(r#"{{"attributes": {{"{long}": "a", "{long}": "b"}}}}"#),
            format!(r#"{{"cost": "{long}", "cost": 1}}"#),
            format!(r#"{{"checks": "{long}"}}"#),
            format!(r#"{{"checks": "{long}", "checks": []}}"#),
            format!(r#""{long}""#),
        ] {
            assert!(refusal(&body).len() < 500);
            assert!(read_checks(body.as_bytes()).unwrap_err().to_string().len() < 500);
        }
    }

    #[test]
    fn nesting_does_not_reach_the_stack() {
        for open in ["[", r#"{"checks":["#, r#"{"attributes":{"a":"#] {
            let body = open.repeat(60_000 / open.len());
            assert!(refusal(&body).contains("the body is not JSON"));
            let detail = read_checks(body.as_bytes()).unwrap_err().to_string();
            assert!(detail.contains("the body is not JSON"), "{detail}");
        }
    }
}
