//! The rules for ambiguous requests, as they are written in the file.

use schemars::JsonSchema;

use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode};

/// Which parts of requests are refused because services are known to read them in two ways, and which are
/// allowed nevertheless.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Requests")]
pub(crate) struct FileRequestRules {
    /// Paths with an encoded slash or backslash: refuse (the default) or keep.
    #[schemars(with = "Option<RefuseOrKeep>")]
    pub(crate) encoded_slashes: Option<SourceValue<String>>,
    /// What happens to a semicolon in a path and the text after it in its segment: refuse (the default);
    /// strip, also from the forwarded request; ignore, which forwards it but neither matches nor counts
    /// it; or keep, as part of the path.
    #[schemars(with = "Option<PathParametersName>")]
    pub(crate) path_parameters: Option<SourceValue<String>>,
    /// Fields with an underscore, which some services read as a hyphen. At the gateway: drop (the
    /// default) or keep. Elsewhere: refuse (the default) a request with a field of a policy in its other
    /// spelling, or keep.
    #[schemars(with = "Option<UnderscoresName>")]
    pub(crate) underscores: Option<SourceValue<String>>,
    /// Fields that override a path, method or address, such as X-Original-URL: drop (the default) or
    /// keep. Only at the gateway.
    #[schemars(with = "Option<DropOrKeep>")]
    pub(crate) override_fields: Option<SourceValue<String>>,
    /// Cookies that policies use and that can be read in two ways, such as quoted ones: refuse (the
    /// default) or keep.
    #[schemars(with = "Option<RefuseOrKeep>")]
    pub(crate) odd_cookies: Option<SourceValue<String>>,
    /// Queries in which a parameter that policies use can be read in two ways: refuse (the default) or
    /// keep.
    #[schemars(with = "Option<RefuseOrKeep>")]
    pub(crate) odd_queries: Option<SourceValue<String>>,
    /// An Authorization that is not a bearer token: allow (the default) or refuse.
    #[schemars(with = "Option<AllowOrRefuse>")]
    pub(crate) other_schemes: Option<SourceValue<String>>,
}

/// Refused or not.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
pub(crate) enum RefuseOrKeep {
    Refuse,
    Keep,
}

/// Forwarded or not.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum DropOrKeep {
    Drop,
    Keep,
}

/// Allowed or not.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum AllowOrRefuse {
    Allow,
    Refuse,
}

/// What happens to fields with an underscore.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum UnderscoresName {
    Drop,
    Refuse,
    Keep,
}

/// What happens to path parameters.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum PathParametersName {
    Refuse,
    Strip,
    Ignore,
    Keep,
}

impl FileRequestRules {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "encoded_slashes",
        "path_parameters",
        "underscores",
        "override_fields",
        "odd_cookies",
        "odd_queries",
        "other_schemes",
    ];

    pub(crate) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Self {
        let Some(fields) = YamlFields::of(node, "requests", Self::FIELDS, report) else {
            return Self::default();
        };
        Self {
            encoded_slashes: fields.text("encoded_slashes", report),
            path_parameters: fields.text("path_parameters", report),
            underscores: fields.text("underscores", report),
            override_fields: fields.text("override_fields", report),
            odd_cookies: fields.text("odd_cookies", report),
            odd_queries: fields.text("odd_queries", report),
            other_schemes: fields.text("other_schemes", report),
        }
    }
}
