//! A limit as it is written in the file.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{AlgorithmName, YamlScalar};
use crate::problem::ProblemReport;
use crate::yaml::{ByteRange, SourceValue, YamlFields, YamlNode, YamlValue, unexpected};

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

/// A limit, member by member.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "LimitFields")]
pub(crate) struct FileLimitFields {
    /// How many units; or the whole limit as text, such as 100/minute.
    #[schemars(with = "YamlScalar")]
    pub(crate) quota: SourceValue<String>,
    /// The window: 1m, 10s, 2h, 1d, or a calendar-day, calendar-week or calendar-month in UTC.
    #[schemars(with = "Option<String>")]
    pub(crate) per: Option<SourceValue<String>>,
    /// The algorithm.
    #[schemars(with = "Option<AlgorithmName>")]
    pub(crate) algorithm: Option<SourceValue<String>>,
    /// The most units that can be used at once. Token buckets only.
    #[schemars(with = "Option<u64>")]
    pub(crate) burst: Option<SourceValue<String>>,
}

impl FileLimitFields {
    pub(crate) const FIELDS: &'static [&'static str] = &["quota", "per", "algorithm", "burst"];
}

impl FileLimit {
    pub(crate) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let form = match &node.value {
            YamlValue::Text(text) => FileLimitForm::Text(text.clone()),
            YamlValue::Map(_) => {
                let fields = YamlFields::of(node, "a limit", FileLimitFields::FIELDS, report)?;
                fields.required("quota", "how many, such as quota: 100", report)?;
                FileLimitForm::Fields(FileLimitFields {
                    quota: fields.text("quota", report)?,
                    per: fields.text("per", report),
                    algorithm: fields.text("algorithm", report),
                    burst: fields.text("burst", report),
                })
            }
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
