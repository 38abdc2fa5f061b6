//! The smaller parts of a policy as they are written: key attributes, costs, responses, precision.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::gateway::{FileHeader, field_list};
use super::{OneOrMany, YamlScalar};
use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode, YamlValue, one_or_many, text, unexpected};

/// One attribute of a key.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "KeyPart")]
pub(crate) enum FileKeyPart {
    /// Its name.
    Name(SourceValue<String>),
    /// Its name and how it is read.
    Fields(FileKeyFields),
}

/// An attribute of a key, and how it is read.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "KeyPartFields")]
pub(crate) struct FileKeyFields {
    /// Its name.
    pub(crate) attribute: SourceValue<String>,
    /// How it is normalised. By default `ip` and `path` are read as such, anything else as text.
    #[schemars(rename = "as", with = "Option<NormalFormName>")]
    pub(crate) form: Option<SourceValue<String>>,
    /// The value to use for a request that has none.
    pub(crate) default: Option<SourceValue<String>>,
    /// How many bits of an IPv6 address count. Defaults to 64.
    #[schemars(with = "Option<u8>")]
    pub(crate) prefix: Option<SourceValue<String>>,
    /// The templates of `as: route`, such as /users/{id}.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) routes: Vec<SourceValue<String>>,
}

/// A fixed cost, or where it comes from.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "CostFile")]
pub(crate) enum FileCost {
    /// A number of units.
    Fixed(#[schemars(with = "u64")] SourceValue<String>),
    /// The number that an attribute or the response has.
    From(FileCostFields),
}

/// Where a cost comes from: an attribute of the request, or the response that a gateway sees.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "CostFields")]
pub(crate) struct FileCostFields {
    /// An attribute that holds a number.
    pub(crate) attribute: Option<SourceValue<String>>,
    /// A header of the response that holds a number.
    pub(crate) response_header: Option<SourceValue<String>>,
    /// Only responses with these statuses count, such as 401 or 5xx.
    #[schemars(with = "Option<OneOrMany<YamlScalar>>")]
    pub(crate) response_status: Option<Vec<SourceValue<String>>>,
    /// The cost of a request without the attribute or header. Defaults to 1.
    #[schemars(with = "Option<u64>")]
    pub(crate) default: Option<SourceValue<String>>,
    /// The least cost of a request, whatever the attribute says. Defaults to 1 for query:, header: and
    /// cookie:, which callers choose themselves, otherwise to 0.
    #[schemars(with = "Option<u64>")]
    pub(crate) min: Option<SourceValue<String>>,
}

/// The response to denied callers.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Denied")]
pub(crate) struct FileDeniedResponse {
    /// The status, 400 to 599. Defaults to 429.
    #[schemars(with = "Option<u16>")]
    pub(crate) status: Option<SourceValue<String>>,
    /// The body. Defaults to a problem document.
    pub(crate) body: Option<SourceValue<String>>,
    /// The body's media type. Defaults to text/plain.
    pub(crate) content_type: Option<SourceValue<String>>,
    /// Headers in addition to Retry-After and RateLimit.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub(crate) headers: Vec<FileHeader>,
}

/// How exact decisions are: exact, cached_deny, or { leased: { max_over: 5% } }.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "Precision", untagged)]
pub(crate) enum FilePrecision {
    /// By name.
    Name(#[schemars(with = "PrecisionName")] String),
    /// Each node leases a part of the quota at a time.
    Leased {
        /// How far all nodes together may exceed the limit.
        #[schemars(with = "FileLease")]
        leased: SourceValue<String>,
    },
}

macro_rules! describes {
    ($($item:item)*) => {
        $(#[derive(JsonSchema)] #[allow(dead_code, reason = "describes a shape to editors")] $item)*
    };
}

describes! {
    #[schemars(rename_all = "kebab-case", rename = "FormName")]
    enum NormalFormName { Text, Lower, Ip, Path, Route }

    #[schemars(rename_all = "snake_case")]
    enum PrecisionName { Exact, CachedDeny }

    #[schemars(deny_unknown_fields, rename = "Leased")]
    struct FileLease { max_over: YamlScalar }
}

impl FileKeyPart {
    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        if let YamlValue::Text(name) = &node.value {
            return Some(Self::Name(SourceValue::new(node.at.clone(), name.clone())));
        }
        let fields = YamlFields::of(node, "an attribute, or", FileKeyFields::FIELDS, report)?;
        fields.required("attribute", "its name", report)?;
        let routes = fields.list("routes", report).unwrap_or_default();
        let routes = routes.iter().filter_map(|item| text(item, "a template", report)).collect();
        Some(Self::Fields(FileKeyFields {
            attribute: fields.text("attribute", report)?,
            form: fields.text("as", report),
            default: fields.text("default", report),
            prefix: fields.text("prefix", report),
            routes,
        }))
    }
}

impl FileKeyFields {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["attribute", "as", "default", "prefix", "routes"];
}

impl FileCost {
    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        if let YamlValue::Text(units) = &node.value {
            return Some(Self::Fixed(SourceValue::new(node.at.clone(), units.clone())));
        }
        let fields = YamlFields::of(node, "a number, or", FileCostFields::FIELDS, report)?;
        let sources = ["attribute", "response_header", "response_status"];
        if sources.iter().filter(|name| fields.get(name).is_some()).count() != 1 {
            let expected = sources.join(", ");
            report.add(&node.at, format!("expected exactly one source of the cost: {expected}"));
            return None;
        }
        let status = |item: &YamlNode| text(item, "a status such as 401 or 5xx", report);
        let statuses = fields.get("response_status").map(one_or_many);
        Some(Self::From(FileCostFields {
            response_status: statuses.map(|items| items.iter().filter_map(status).collect()),
            attribute: fields.text("attribute", report),
            response_header: fields.text("response_header", report),
            default: fields.text("default", report),
            min: fields.text("min", report),
        }))
    }
}

impl FileCostFields {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["attribute", "response_header", "response_status", "default", "min"];
}

impl FileDeniedResponse {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["status", "body", "content_type", "headers"];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a response to denied callers", Self::FIELDS, report)?;
        Some(Self {
            headers: fields.get("headers").map(|node| field_list(node, report)).unwrap_or_default(),
            status: fields.text("status", report),
            body: fields.text("body", report),
            content_type: fields.text("content_type", report),
        })
    }
}

impl FilePrecision {
    pub(super) fn read(
        node: &YamlNode,
        report: &mut ProblemReport<'_>,
    ) -> Option<SourceValue<Self>> {
        let at = node.at.clone();
        if let YamlValue::Text(name) = &node.value {
            return Some(SourceValue::new(at, Self::Name(name.clone())));
        }
        let expected = "exact, cached_deny, or";
        let fields = YamlFields::of(node, expected, &["leased"], report)?;
        let leased = fields.required("leased", "{ max_over: 5% }", report)?;
        let fields = YamlFields::of(leased, "leased", &["max_over"], report)?;
        let Some(max_over) = fields.get("max_over") else {
            unexpected(leased, "{ max_over: 5% }", report);
            return None;
        };
        let leased = text(max_over, "a share such as 5%", report)?;
        Some(SourceValue::new(at, Self::Leased { leased }))
    }
}
