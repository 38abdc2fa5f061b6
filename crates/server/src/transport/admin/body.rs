//! Parses the JSON bodies of operators' requests, and names the member at fault in a refusal.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::transport::brief;
use crate::transport::http::diagnosis::{
    expected_count, members, unknown_member, unnamed_fault, wrong_member,
};
use crate::transport::http::refusal::HttpRefusal;
use crate::transport::http::request::read_object;

/// A type that can be parsed from a body.
pub(super) trait AdminBody: DeserializeOwned {
    const MEMBERS: &'static [BodyMember];
}

/// One member of a body.
pub(super) struct BodyMember {
    name: &'static str,
    kind: MemberKind,
    is_required: bool,
}

/// The type of a member.
#[derive(Clone, Copy)]
pub(super) enum MemberKind {
    Text,
    Count,
    Attributes,
    Limits,
}

pub(super) const fn required(name: &'static str, kind: MemberKind) -> BodyMember {
    BodyMember { name, kind, is_required: true }
}

pub(super) const fn optional(name: &'static str, kind: MemberKind) -> BodyMember {
    BodyMember { name, kind, is_required: false }
}

/// Parses a body, or explains what is wrong with it.
pub(super) fn read<T: AdminBody>(body: &[u8]) -> Result<T, HttpRefusal> {
    read_object(body).map_err(|error| diagnose(T::MEMBERS, body, &error))
}

/// One limit such as `unlimited` or `5/minute`, or a list of limits, as in a file.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OverrideLimits {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OverrideLimits::deserialize(from)? {
        OverrideLimits::One(limit) => vec![limit],
        OverrideLimits::Many(limits) => limits,
    })
}

#[cold]
fn diagnose(expected: &[BodyMember], body: &[u8], error: &serde_json::Error) -> HttpRefusal {
    let names: Vec<&str> = expected.iter().map(|member| member.name).collect();
    let object = format!("an object with {}", listed(&names, "and"));
    let found = match members(body, &object) {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    for (name, value) in &found {
        match expected.iter().find(|member| member.name == name) {
            None => return unknown_member(name, &listed(&names, "or")),
            Some(member) => {
                if let Some(refusal) = member.fault(value) {
                    return refusal;
                }
            }
        }
    }
    match expected.iter().find(|member| member.is_required && !found.contains_key(member.name)) {
        Some(BodyMember { name, kind, .. }) => {
            let detail = format!("`{name}` is missing: expected {}", kind.expected());
            HttpRefusal::invalid(Some(name), detail)
        }
        None => unnamed_fault(error, &object),
    }
}

impl BodyMember {
    fn fault(&self, value: &Value) -> Option<HttpRefusal> {
        let is_text = |value: &Value| value.is_string();
        let is_right = match (self.kind, value) {
            (MemberKind::Text | MemberKind::Count, Value::Null) => !self.is_required,
            (MemberKind::Text | MemberKind::Limits, Value::String(_)) => true,
            (MemberKind::Count, value) => value.is_u64(),
            (MemberKind::Limits, Value::Array(limits)) => limits.iter().all(is_text),
            (MemberKind::Attributes, Value::Object(attributes)) => {
                let wrong_one = attributes.iter().find(|(_, value)| !value.is_string());
                let (name, value) = wrong_one?;
                return Some(wrong_member(
                    &format!("attributes.{}", brief(name)),
                    value,
                    "a string",
                ));
            }
            _ => false,
        };
        (!is_right).then(|| wrong_member(self.name, value, &self.kind.expected()))
    }
}

impl MemberKind {
    fn expected(self) -> String {
        match self {
            Self::Text => "a string".to_owned(),
            Self::Count => expected_count(),
            Self::Attributes => "an object whose values are strings".to_owned(),
            Self::Limits => "a list of limits such as \"5/minute\", or \"unlimited\"".to_owned(),
        }
    }
}

/// Joins names, such as `policy, key and limits`.
fn listed(names: &[&str], last: &str) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., end] => format!("{} {last} {end}", rest.join(", ")),
    }
}
