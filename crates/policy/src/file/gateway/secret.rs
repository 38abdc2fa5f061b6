//! Values that may be secret, as the user wrote them.

use schemars::JsonSchema;

use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode, YamlValue};

/// A value that may be secret: in the file itself, or elsewhere.
#[derive(Clone, Debug)]
pub(crate) enum FileSecret {
    Text(SourceValue<String>),
    File(SourceValue<String>),
    Env(SourceValue<String>),
}

/// What such a value looks like to an editor.
#[derive(JsonSchema)]
#[schemars(rename = "Secret", untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) enum SecretShape {
    /// The value itself.
    Text(String),
    /// Where it is found: one of these.
    Place(SecretPlace),
}

/// Where a secret is found: one of these.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) struct SecretPlace {
    /// In this file, which is read again when it changes.
    file: Option<String>,
    /// In this variable of the environment.
    env: Option<String>,
}

impl FileSecret {
    pub(crate) const FIELDS: &'static [&'static str] = &["file", "env"];

    pub(crate) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        if let YamlValue::Text(value) = &node.value {
            return Some(Self::Text(SourceValue::new(node.at.clone(), value.clone())));
        }
        let fields = YamlFields::of(node, "a value, or where it is found", Self::FIELDS, report)?;
        match (fields.text("file", report), fields.text("env", report)) {
            (Some(file), None) => Some(Self::File(file)),
            (None, Some(env)) => Some(Self::Env(env)),
            _ => {
                report.add(&node.at, "expected one of file and env");
                None
            }
        }
    }
}
