//! Values that may be secret, as they are written in the file.

use schemars::JsonSchema;

use super::FileValue;
use crate::file_table;
use crate::files::problem::ProblemReport;
use crate::files::yaml::{SourceValue, YamlNode, YamlValue};

/// A value that may be secret: the value itself, or where to find it.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(rename = "Secret", untagged, description = "The schema of a value that may be secret.")]
pub enum FileSecret {
    /// The value itself.
    Text(SourceValue<String>),
    /// Where to find the value: one of these.
    Place(SecretPlace),
}

file_table! {
    /// Where to find a secret: one of these.
    pub struct SecretPlace("SecretPlace", "a value, or where to find it") {
        /// In this file, which is read again when it changes.
        file: Option<SourceValue<String>>,
        /// In this environment variable.
        env: Option<SourceValue<String>>,
    }
}

impl FileValue for FileSecret {
    type Shape = Self;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        if let YamlValue::Text(value) = &node.value {
            return Some(Self::Text(SourceValue::new(node.at.clone(), value.clone())));
        }
        let place = SecretPlace::read(node, report)?;
        if place.file.is_some() == place.env.is_some() {
            report.add(&node.at, "expected either file or env");
            return None;
        }
        Some(Self::Place(place))
    }
}
