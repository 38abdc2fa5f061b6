//! The configuration as it is written in the file: its fields, not yet their meaning.
//!
//! Reading checks types and names and remembers the place of every value; [`compile`](crate::compile)
//! checks what the values mean. Both report to the same list, so that one run shows every mistake.
//! The JSON Schema is generated from these types as well.

mod gateway;
mod limit;
mod policy;
mod policy_sections;
mod requests;

use std::collections::BTreeMap;

use schemars::JsonSchema;

#[cfg(test)]
pub(crate) use gateway::FileUpstreamFields;
pub(crate) use gateway::{
    FileAccessLog, FileApiKey, FileGateway, FileHeader, FileHeaderRule, FileHeaderRules,
    FileHealthCheck, FileJwt, FileRoute, FileSecret, FileTimeouts, FileUploads, FileUpstream,
};
pub(crate) use limit::{FileLimit, FileLimitFields, FileLimitForm};
pub(crate) use policy::{FileCondition, FileOverride, FilePolicy, FileTier, overrides};
pub(crate) use policy_sections::{
    FileCost, FileCostFields, FileDeniedResponse, FileKeyFields, FileKeyPart, FilePrecision,
};
pub(crate) use requests::{FileRequestRules, RefuseOrKeep};

use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode, one_or_many, text};

/// A Tidegate configuration.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Tidegate")]
pub(crate) struct ConfigFile {
    /// Where counters are stored: memory, redis://host:6379/0, rediss://, redis+sentinel://h1,h2/service
    /// or redis+cluster://h1,h2.
    pub(crate) store: Option<SourceValue<String>>,
    /// The password of a Redis whose address has none: where to find it, or the password itself.
    #[schemars(with = "Option<gateway::SecretShape>")]
    pub(crate) store_password: Option<FileSecret>,
    /// A template for stored keys, for a Redis that is shared with another limiter: {entity},
    /// {limit}, {window_index}, {window_start} and {window_start_ms}.
    pub(crate) key_format: Option<SourceValue<String>>,
    /// Networks of proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8. Defaults to none.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub(crate) trusted_proxies: Vec<SourceValue<String>>,
    /// Whether letter case matters in paths: exact (the default), or ignore, for services such as
    /// Express and ASP.NET.
    #[schemars(with = "Option<PathCaseName>")]
    pub(crate) path_case: Option<SourceValue<String>>,
    /// How requests are read over HTTP, and which headers responses have.
    #[schemars(with = "Option<FileHttp>")]
    pub(crate) http: FileHttp,
    /// Defaults for policies.
    #[schemars(with = "Option<FileDefaults>")]
    pub(crate) defaults: FileDefaults,
    /// A gateway in front of services that enforces the policies.
    pub(crate) gateway: Option<FileGateway>,
    /// The policies. All that match a request apply together.
    pub(crate) policies: Vec<FilePolicy>,
}

/// How requests are read over HTTP, and which headers responses have.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Http")]
pub(crate) struct FileHttp {
    /// Adds X-RateLimit-Limit, -Remaining and -Reset to responses, with the reset in this unit:
    /// seconds or milliseconds from now, or epoch-seconds.
    #[schemars(with = "Option<LegacyHeadersName>")]
    pub(crate) legacy_headers: Option<SourceValue<String>>,
    /// The rules for requests that a proxy asks about, or that a layer in a program limits.
    pub(crate) requests: Option<FileRequestRules>,
}

/// Defaults for policies.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Defaults")]
pub(crate) struct FileDefaults {
    /// The algorithm of limits.
    #[schemars(with = "Option<AlgorithmName>")]
    pub(crate) algorithm: Option<SourceValue<String>>,
    /// What to do if the store does not answer.
    #[schemars(with = "Option<OnStoreErrorName>")]
    pub(crate) on_store_error: Option<SourceValue<String>>,
    /// How long to wait for the store, such as 10ms.
    pub(crate) store_deadline: Option<SourceValue<String>>,
    /// How exact a decision must be.
    pub(crate) precision: Option<SourceValue<FilePrecision>>,
}

impl ConfigFile {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "store",
        "store_password",
        "key_format",
        "trusted_proxies",
        "path_case",
        "http",
        "defaults",
        "gateway",
        "policies",
    ];

    /// Reads every valid part; the report lists the problems.
    pub(crate) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Self {
        let Some(fields) = YamlFields::of(node, "a configuration", Self::FIELDS, report) else {
            return Self::default();
        };
        let (http, defaults) = (fields.get("http"), fields.get("defaults"));
        let policies = match fields.required("policies", "a list of policies", report) {
            Some(_) => fields.list("policies", report).unwrap_or_default(),
            None => &[],
        };
        let proxies = fields.get("trusted_proxies").map(one_or_many).unwrap_or_default();
        let mut network = |node| text(node, "a network, such as 10.0.0.0/8", report);
        Self {
            trusted_proxies: proxies.iter().filter_map(&mut network).collect(),
            store: fields.text("store", report),
            store_password: fields
                .get("store_password")
                .and_then(|node| FileSecret::read(node, report)),
            key_format: fields.text("key_format", report),
            path_case: fields.text("path_case", report),
            http: http.map(|node| FileHttp::read(node, report)).unwrap_or_default(),
            defaults: defaults.map(|node| FileDefaults::read(node, report)).unwrap_or_default(),
            gateway: fields.get("gateway").and_then(|node| FileGateway::read(node, report)),
            policies: policies.iter().filter_map(|node| FilePolicy::read(node, report)).collect(),
        }
    }
}

impl FileHttp {
    pub(crate) const FIELDS: &'static [&'static str] = &["legacy_headers", "requests"];

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Self {
        match YamlFields::of(node, "http", Self::FIELDS, report) {
            Some(fields) => Self {
                legacy_headers: fields.text("legacy_headers", report),
                requests: fields.get("requests").map(|node| FileRequestRules::read(node, report)),
            },
            None => Self::default(),
        }
    }
}

impl FileDefaults {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["algorithm", "on_store_error", "store_deadline", "precision"];

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Self {
        let Some(fields) = YamlFields::of(node, "defaults", Self::FIELDS, report) else {
            return Self::default();
        };
        Self {
            algorithm: fields.text("algorithm", report),
            on_store_error: fields.text("on_store_error", report),
            store_deadline: fields.text("store_deadline", report),
            precision: fields.get("precision").and_then(|node| FilePrecision::read(node, report)),
        }
    }
}

/// One text, or a list of them.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// The schema of a mapping from attributes to patterns.
pub(crate) type ConditionsShape = BTreeMap<String, OneOrMany<YamlScalar>>;

/// Text, or a value that YAML reads as a number or a boolean.
#[derive(JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
#[schemars(rename = "Scalar")]
pub(crate) enum YamlScalar {
    Text(String),
    Number(i64),
    Truth(bool),
}

/// The algorithms.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
pub(crate) enum AlgorithmName {
    FixedWindow,
    SlidingWindow,
    SlidingLog,
    TokenBucket,
}

/// What to do if the store does not answer.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
pub(crate) enum OnStoreErrorName {
    Local,
    Open,
    Closed,
}

/// The units of X-RateLimit-Reset.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
pub(crate) enum LegacyHeadersName {
    Seconds,
    Milliseconds,
    EpochSeconds,
}

/// Whether letter case matters.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
pub(crate) enum PathCaseName {
    Exact,
    Ignore,
}

/// Each attribute with its patterns, in the order written.
fn conditions(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileCondition> {
    let expected = "a mapping of attributes to patterns, such as { path: /login, method: POST }";
    let entries = crate::yaml::entries(node, expected, report);
    let condition = |entry: &crate::yaml::YamlEntry, report: &mut ProblemReport<'_>| {
        let items = crate::yaml::one_or_many(&entry.node);
        let patterns = items.iter().filter_map(|item| text(item, "a pattern, or a list", report));
        FileCondition { attribute: entry.name.clone(), patterns: patterns.collect() }
    };
    entries.iter().map(|entry| condition(entry, report)).collect()
}
