//! From a body to a question that makes sense, or to a refusal that says why not.

use std::collections::HashMap;

use serde_json::Value;
use tidegate::{Cost, MAX_COUNT};
use tidegate_wire::{CheckRequest, Text};

use super::problem::{Refusal, brief};

/// A check, understood.
#[derive(Debug)]
pub(super) struct Check<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) cost: Cost,
}

/// Who is checked, in either form.
#[derive(Debug)]
pub(super) enum Subject<'a> {
    Named { policy: Text<'a>, key: Text<'a> },
    Described(HashMap<Text<'a>, Option<Text<'a>>>),
}

impl<'a> Check<'a> {
    pub(super) fn read(body: &'a [u8]) -> Result<Self, Refusal> {
        let request: CheckRequest<'a> =
            serde_json::from_slice(body).map_err(|error| diagnose(body, &error))?;
        let cost = match request.cost {
            None => Cost::ONE,
            Some(units) => Cost::new(units).map_err(|_| wrong("cost", units, &a_cost()))?,
        };
        let subject = match (request.policy, request.key, request.attributes) {
            (Some(policy), Some(key), None) => Subject::Named { policy, key },
            (None, None, Some(attributes)) => Subject::Described(attributes),
            (None, None, None) => return Err(Refusal::bad(None, NEITHER)),
            (_, _, Some(_)) => return Err(Refusal::bad(Some("attributes"), BOTH)),
            (Some(_), None, None) => return Err(Refusal::bad(Some("key"), NO_KEY)),
            (None, Some(_), None) => return Err(Refusal::bad(Some("policy"), NO_POLICY)),
        };
        Ok(Self { subject, cost })
    }
}

/// Keys are hashed, never stored: this bounds time, not memory.
pub(super) fn bounded(value: &[u8], member: impl FnOnce() -> String) -> Result<(), Refusal> {
    match value.len() {
        0..=MAX_KEY => Ok(()),
        length => {
            let member = member();
            let detail = format!("`{member}` has {length} bytes: expected at most {MAX_KEY}");
            Err(Refusal::bad(Some(&member), detail))
        }
    }
}

/// Finds the member that made typed reading fail. Slow, and only for those who are refused.
#[cold]
fn diagnose(body: &[u8], error: &serde_json::Error) -> Refusal {
    let members = match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => members,
        Ok(other) => {
            let detail = format!("the body is {}: expected {EITHER}", brief(&other.to_string()));
            return Refusal::bad(None, detail);
        }
        Err(error) => {
            return Refusal::bad(
                None,
                format!("the body is not JSON ({error}): expected {EITHER}"),
            );
        }
    };
    let found = members.iter().find_map(|(name, value)| fault(name, value));
    found.unwrap_or_else(|| Refusal::bad(None, format!("{error}: expected {EITHER}")))
}

fn fault(name: &str, value: &Value) -> Option<Refusal> {
    match (name, value) {
        ("policy" | "key" | "cost" | "attributes", Value::Null) => None,
        ("policy" | "key", Value::String(_)) => None,
        ("policy" | "key", _) => Some(wrong(name, value, "a string")),
        ("cost", value) if value.is_u64() => None,
        ("cost", _) => Some(wrong(name, value, &a_cost())),
        ("attributes", Value::Object(attributes)) => {
            let (name, value) =
                attributes.iter().find(|(_, value)| !value.is_string() && !value.is_null())?;
            Some(wrong(&format!("attributes.{}", brief(name)), value, "a string"))
        }
        ("attributes", _) => Some(wrong(name, value, "an object whose values are strings")),
        _ => {
            let name = brief(name);
            let detail = format!("`{name}` is unknown: expected policy, key, attributes or cost");
            Some(Refusal::bad(Some(&name), detail))
        }
    }
}

fn wrong(member: &str, value: impl ToString, expected: &str) -> Refusal {
    let value = brief(&value.to_string());
    Refusal::bad(Some(member), format!("`{member}` is {value}: expected {expected}"))
}

fn a_cost() -> String {
    format!("a whole number from 0 to {MAX_COUNT}")
}

const MAX_KEY: usize = 4 << 10;

const EITHER: &str = r#"{"policy": "...", "key": "..."} or {"attributes": {...}}"#;
const NEITHER: &str = "nothing says who is checked: expected policy and key, or attributes";
const BOTH: &str = "`attributes` came with `policy` or `key`: expected one form or the other";
const NO_KEY: &str = "`key` is missing: expected a string beside `policy`";
const NO_POLICY: &str = "`policy` is missing: expected a string beside `key`";

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        Check::read(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn the_cost_is_one_unless_said() {
        let check = Check::read(br#"{"policy": "p", "key": "k"}"#).unwrap();
        assert_eq!(check.cost, Cost::ONE);
        let check = Check::read(br#"{"attributes": {}, "cost": 0}"#).unwrap();
        assert!(check.cost.is_peek());
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
            format!(r#""{long}""#),
        ] {
            assert!(refusal(&body).len() < 500);
        }
    }

    #[test]
    fn nesting_does_not_reach_the_stack() {
        let detail = refusal(&"[".repeat(60_000));
        assert!(detail.contains("the body is not JSON"), "{detail}");
    }
}
