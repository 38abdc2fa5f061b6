//! A limit as the user wrote it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{AlgorithmName, Scalar};
use crate::problem::Report;
use crate::yaml::{At, Fields, Node, Spot, Value, unexpected};

/// A limit and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct LimitFile {
    pub(crate) at: At,
    pub(crate) form: LimitForm,
}

/// The two ways to write one.
#[derive(Clone, Debug)]
pub(crate) enum LimitForm {
    /// `100/minute`, `5 per 10s`, `1000/1h burst 200`, `50/calendar-day` or `unlimited`.
    Text(String),
    /// Member by member.
    Fields(LimitFields),
}

/// A limit, member by member.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "LimitFields")]
pub(crate) struct LimitFields {
    /// How many; or the whole limit as text, such as 100/minute.
    #[schemars(with = "Scalar")]
    pub(crate) quota: Spot<String>,
    /// In how long: 1m, 10s, 2h, 1d, or a calendar-day, calendar-week or calendar-month in UTC.
    #[schemars(with = "Option<String>")]
    pub(crate) per: Option<Spot<String>>,
    /// The algorithm.
    #[schemars(with = "Option<AlgorithmName>")]
    pub(crate) algorithm: Option<Spot<String>>,
    /// The most that may come at once. Token buckets only.
    #[schemars(with = "Option<u64>")]
    pub(crate) burst: Option<Spot<String>>,
}

impl LimitFields {
    pub(crate) const FIELDS: &'static [&'static str] = &["quota", "per", "algorithm", "burst"];
}

impl LimitFile {
    pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let form = match &node.value {
            Value::Text(text) => LimitForm::Text(text.clone()),
            Value::Map(_) => {
                let fields = Fields::of(node, "a limit", LimitFields::FIELDS, report)?;
                fields.required("quota", "how many, such as quota: 100", report)?;
                LimitForm::Fields(LimitFields {
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

/// Either form.
impl JsonSchema for LimitFile {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fields = generator.subschema_for::<LimitFields>();
        schemars::json_schema!({
            "description": "A limit: 100/minute, 5 per 10s, 1000/1h burst 200, 50/calendar-day, \
                            0/second (denies everything) or unlimited.",
            "anyOf": [{ "type": "string" }, fields],
        })
    }
}
