//! The bodies that operators send: read, or refused with the member at fault, as for checks.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::transport::http::diagnose::{a_count, members, unknown, unnamed, wrong};
use crate::transport::http::problem::{Refusal, brief};
use crate::transport::http::request::object;

/// What can be read from a body.
pub(super) trait Body: DeserializeOwned {
    const MEMBERS: &'static [Member];
}

/// One member of a body.
pub(super) struct Member {
    name: &'static str,
    kind: Kind,
    is_required: bool,
}

/// What a member may be.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    Count,
    Attributes,
    Limits,
}

/// A member that is required.
pub(super) const fn required(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, is_required: true }
}

pub(super) const fn optional(name: &'static str, kind: Kind) -> Member {
    Member { name, kind, is_required: false }
}

/// A body, or what is wrong with it.
pub(super) fn read<T: Body>(body: &[u8]) -> Result<T, Refusal> {
    object(body).map_err(|error| diagnose(T::MEMBERS, body, &error))
}

/// `unlimited` or `5/minute` alone, or a list, as in a file.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Limits {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Limits::deserialize(from)? {
        Limits::One(limit) => vec![limit],
        Limits::Many(limits) => limits,
    })
}

#[cold]
fn diagnose(expected: &[Member], body: &[u8], error: &serde_json::Error) -> Refusal {
    let names: Vec<&str> = expected.iter().map(|member| member.name).collect();
    let object = format!("an object with {}", listed(&names, "and"));
    let found = match members(body, &object) {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    for (name, value) in &found {
        match expected.iter().find(|member| member.name == name) {
            None => return unknown(name, &listed(&names, "or")),
            Some(member) => {
                if let Some(refusal) = member.fault(value) {
                    return refusal;
                }
            }
        }
    }
    match expected.iter().find(|it| it.is_required && !found.contains_key(it.name)) {
        Some(Member { name, kind, .. }) => {
            let detail = format!("`{name}` is missing: expected {}", kind.expected());
            Refusal::bad(Some(name), detail)
        }
        None => unnamed(error, &object),
    }
}

impl Member {
    fn fault(&self, value: &Value) -> Option<Refusal> {
        let is_text = |value: &Value| value.is_string();
        let is_right = match (self.kind, value) {
            (Kind::Text | Kind::Count, Value::Null) => !self.is_required,
            (Kind::Text | Kind::Limits, Value::String(_)) => true,
            (Kind::Count, value) => value.is_u64(),
            (Kind::Limits, Value::Array(limits)) => limits.iter().all(is_text),
            (Kind::Attributes, Value::Object(attributes)) => {
                let wrong_one = attributes.iter().find(|(_, value)| !value.is_string());
                let (name, value) = wrong_one?;
                return Some(wrong(&format!("attributes.{}", brief(name)), value, "a string"));
            }
            _ => false,
        };
        (!is_right).then(|| wrong(self.name, value, &self.kind.expected()))
    }
}

impl Kind {
    fn expected(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Count => a_count(),
            Self::Attributes => "an object whose values are strings".to_owned(),
            Self::Limits => "a list of limits such as \"5/minute\", or \"unlimited\"".to_owned(),
        }
    }
}

/// `policy, key and limits`.
fn listed(names: &[&str], last: &str) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., end] => format!("{} {last} {end}", rest.join(", ")),
    }
}
