//! Values that may be secret, as they are written in the file.

use schemars::JsonSchema;

use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode, YamlValue};

/// A value that may be secret: the value itself, or where to find it.
#[derive(Clone, Debug)]
pub(crate) enum FileSecret {
    Text(SourceValue<String>),
    File(SourceValue<String>),
    Env(SourceValue<String>),
}

/// The schema of a value that may be secret.
#[derive(JsonSchema)]
#[schemars(rename = "Secret", untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) enum SecretShape {
    /// The value itself.
    Text(String),
    /// Where to find the value: one of these.
    Place(SecretPlace),
}

/// Where to find a secret: one of these.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) struct SecretPlace {
    /// In this file, which is read again when it changes.
    file: Option<String>,
    /// In this environment variable.
    env: Option<String>,
}

impl FileSecret {
    pub(crate) const FIELDS: &'static [&'static str] = &["file", "env"];

    pub(crate) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        if let YamlValue::Text(value) = &node.value {
            return Some(Self::Text(SourceValue::new(node.at.clone(), value.clone())));
        }
        let fields = YamlFields::of(node, "a value, or where to find it", Self::FIELDS, report)?;
        match (fields.text("file", report), fields.text("env", report)) {
            (Some(file), None) => Some(Self::File(file)),
            (None, Some(env)) => Some(Self::Env(env)),
            _ => {
                report.add(&node.at, "expected either file or env");
                None
            }
        }
    }
}
