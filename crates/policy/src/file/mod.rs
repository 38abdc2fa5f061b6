//! What the user wrote: the shape of a configuration, not yet its meaning.
//!
//! Reading checks types and names and remembers where everything stood; [`compile`](crate::compile)
//! gives it a meaning. Both report to the same list, so that one run shows every mistake. The JSON
//! Schema is generated from these types as well.

mod gateway;
mod limit;
mod parts;
mod policy;
mod requests;

use std::collections::BTreeMap;

use schemars::JsonSchema;

#[cfg(test)]
pub(crate) use gateway::UpstreamFields;
pub(crate) use gateway::{
    AccessLogFile, ApiKeyFile, FieldFile, GatewayFile, HeaderRulesFile, HealthFile, JwtFile,
    RouteFile, TimeoutsFile, UpstreamFile,
};
pub(crate) use limit::{LimitFields, LimitFile, LimitForm};
pub(crate) use parts::{CostFields, CostFile, DeniedFile, KeyPart, KeyPartFields, PrecisionFile};
pub(crate) use policy::{Condition, Override, PolicyFile, Tier, overrides};
pub(crate) use requests::{RefuseOrKeep, RequestsFile};

use crate::problem::Report;
use crate::yaml::{Fields, Node, Spot, one_or_many, text};

/// A Tidegate configuration.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Tidegate")]
pub(crate) struct File {
    /// Where counters live: memory, redis://host:6379/0, rediss://, redis+sentinel://h1,h2/service
    /// or redis+cluster://h1,h2.
    pub(crate) store: Option<Spot<String>>,
    /// A template for stored keys, for a Redis that is shared with another limiter: {entity},
    /// {limit}, {window_index}, {window_start} and {window_start_ms}.
    pub(crate) key_format: Option<Spot<String>>,
    /// Networks of proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8. Defaults to none.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub(crate) trusted_proxies: Vec<Spot<String>>,
    /// Whether letter case matters in paths: exact (the default), or ignore, for services such as
    /// Express and ASP.NET.
    #[schemars(with = "Option<PathCaseName>")]
    pub(crate) path_case: Option<Spot<String>>,
    /// How requests are read over HTTP, and how answers look.
    #[schemars(with = "Option<Http>")]
    pub(crate) http: Http,
    /// Defaults for policies.
    #[schemars(with = "Option<Defaults>")]
    pub(crate) defaults: Defaults,
    /// A gateway in front of services, which enforces the policies.
    pub(crate) gateway: Option<GatewayFile>,
    /// The policies. All that match a request apply together.
    pub(crate) policies: Vec<PolicyFile>,
}

/// How requests are read over HTTP, and how answers look.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Http {
    /// Adds X-RateLimit-Limit, -Remaining and -Reset to responses, the last in this unit: seconds
    /// or milliseconds from now, or epoch-seconds.
    #[schemars(with = "Option<LegacyHeadersName>")]
    pub(crate) legacy_headers: Option<Spot<String>>,
    /// How requests are read that a proxy asks about, or that a layer in a program limits.
    pub(crate) requests: Option<RequestsFile>,
}

/// Defaults for policies.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Defaults {
    /// The algorithm of limits.
    #[schemars(with = "Option<AlgorithmName>")]
    pub(crate) algorithm: Option<Spot<String>>,
    /// What to do if the store does not answer.
    #[schemars(with = "Option<OnStoreErrorName>")]
    pub(crate) on_store_error: Option<Spot<String>>,
    /// How long to wait for the store, such as 10ms.
    pub(crate) store_deadline: Option<Spot<String>>,
    /// How exact a decision must be.
    pub(crate) precision: Option<Spot<PrecisionFile>>,
}

impl File {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "store",
        "key_format",
        "trusted_proxies",
        "path_case",
        "http",
        "defaults",
        "gateway",
        "policies",
    ];

    /// Reads whatever can be read; the report lists the rest.
    pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Self {
        let Some(fields) = Fields::of(node, "a configuration", Self::FIELDS, report) else {
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
            key_format: fields.text("key_format", report),
            path_case: fields.text("path_case", report),
            http: http.map(|node| Http::read(node, report)).unwrap_or_default(),
            defaults: defaults.map(|node| Defaults::read(node, report)).unwrap_or_default(),
            gateway: fields.get("gateway").and_then(|node| GatewayFile::read(node, report)),
            policies: policies.iter().filter_map(|node| PolicyFile::read(node, report)).collect(),
        }
    }
}

impl Http {
    pub(crate) const FIELDS: &'static [&'static str] = &["legacy_headers", "requests"];

    fn read(node: &Node, report: &mut Report<'_>) -> Self {
        match Fields::of(node, "http", Self::FIELDS, report) {
            Some(fields) => Self {
                legacy_headers: fields.text("legacy_headers", report),
                requests: fields.get("requests").map(|it| RequestsFile::read(it, report)),
            },
            None => Self::default(),
        }
    }
}

impl Defaults {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["algorithm", "on_store_error", "store_deadline", "precision"];

    fn read(node: &Node, report: &mut Report<'_>) -> Self {
        let Some(fields) = Fields::of(node, "defaults", Self::FIELDS, report) else {
            return Self::default();
        };
        Self {
            algorithm: fields.text("algorithm", report),
            on_store_error: fields.text("on_store_error", report),
            store_deadline: fields.text("store_deadline", report),
            precision: fields.get("precision").and_then(|node| PrecisionFile::read(node, report)),
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

/// What a mapping from attributes to patterns looks like to an editor.
pub(crate) type Conditions = BTreeMap<String, OneOrMany<Scalar>>;

/// Text, or what YAML takes for a number or a boolean.
#[derive(JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(untagged)]
#[allow(dead_code, reason = "describes a shape to editors")]
pub(crate) enum Scalar {
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
fn conditions(node: &Node, report: &mut Report<'_>) -> Vec<Condition> {
    let expected = "a mapping of attributes to patterns, such as { path: /login, method: POST }";
    let entries = crate::yaml::entries(node, expected, report);
    let condition = |entry: &crate::yaml::Entry, report: &mut Report<'_>| {
        let items = crate::yaml::one_or_many(&entry.node);
        let patterns = items.iter().filter_map(|item| text(item, "a pattern, or a list", report));
        Condition { attribute: entry.name.clone(), patterns: patterns.collect() }
    };
    entries.iter().map(|entry| condition(entry, report)).collect()
}
