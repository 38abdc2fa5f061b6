//! A limit as it is written in the file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use tidegate_core::AlgorithmKind;

use super::{FileValue, OneOf, YamlScalar};
use crate::file_table;
use crate::files::problem::ProblemReport;
use crate::files::yaml::{ByteRange, SourceValue, YamlNode, YamlValue, unexpected};

/// A limit and its place in the file.
#[derive(Clone, Debug)]
pub(crate) struct FileLimit {
    pub(crate) at: ByteRange,
    pub(crate) form: FileLimitForm,
}

/// The two ways to write a limit.
#[derive(Clone, Debug)]
pub(crate) enum FileLimitForm {
    /// `100/minute`, `5 per 10s`, `1000/1h burst 200`, `50/calendar-day` or `unlimited`.
    Text(String),
    /// Member by member.
    Fields(FileLimitFields),
}

file_table! {
    /// A limit, member by member.
    pub(crate) struct FileLimitFields("LimitFields", "a limit") {
        /// How many units; or the whole limit as text, such as 100/minute.
        quota: SourceValue<String> as YamlScalar [required "how many, such as quota: 100"],
        /// The window: 1m, 10s, 2h, 1d, or a calendar-day, calendar-week or calendar-month in UTC.
        per: Option<SourceValue<String>>,
        /// The algorithm.
        algorithm: Option<SourceValue<String>> as OneOf<AlgorithmKind>,
        /// The most units that can be used at once. Token buckets only.
        burst: Option<SourceValue<String>> as u64,
        /// How many steps the window has, 2 to 60. Stepped windows only.
        steps: Option<SourceValue<String>> as u64,
    }
}

impl FileValue for FileLimit {
    type Shape = Self;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let form = match &node.value {
            YamlValue::Text(text) => FileLimitForm::Text(text.clone()),
            YamlValue::Map(_) => FileLimitForm::Fields(FileLimitFields::read(node, report)?),
            _ => {
                let expected = "a limit such as 100/minute, { quota: 100, per: 1m } or unlimited";
                unexpected(node, expected, report);
                return None;
            }
        };
        Some(Self { at: node.at.clone(), form })
    }
}

/// Accepts either form.
impl JsonSchema for FileLimit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<FileLimitFields>();
        schemars::json_schema!({
            "description": "A limit: 100/minute, 5 per 10s, 1000/1h burst 200, 50/calendar-day, \
                            0/second (denies everything) or unlimited.",
            "anyOf": [{ "type": "string" }, fields],
        })
    }
}
