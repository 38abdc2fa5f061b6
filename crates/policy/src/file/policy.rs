//! A policy as it is written in the file.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::{
    AlgorithmName, ConditionsShape, FileCost, FileDeniedResponse, FileKeyPart, FileLimit,
    FilePrecision, OnStoreErrorName, OneOrMany, conditions,
};
use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode, entries, one_or_many};

/// A policy: the requests it applies to, its key and its limits.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Policy")]
pub(crate) struct FilePolicy {
    /// Its name in responses and metrics. Counters belong to the name: a renamed policy starts with new
    /// ones.
    pub(crate) name: SourceValue<String>,
    /// The requests it applies to, by attribute: an exact value, a list, a prefix*, a /glob/** on
    /// paths, or !not. All requests if absent.
    #[schemars(rename = "match", with = "Option<ConditionsShape>")]
    pub(crate) condition: Vec<FileCondition>,
    /// The attributes that distinguish callers; an empty list means one counter for all. A request
    /// that lacks one of them is not limited by this policy.
    #[schemars(with = "OneOrMany<FileKeyPart>")]
    pub(crate) key: Vec<FileKeyPart>,
    /// The limits of each key. A request must be within all of them.
    #[schemars(with = "Option<OneOrMany<FileLimit>>")]
    pub(crate) limits: Option<Vec<FileLimit>>,
    /// The algorithm of limits without one of their own.
    #[schemars(with = "Option<AlgorithmName>")]
    pub(crate) algorithm: Option<SourceValue<String>>,
    /// Other limits for some requests: the first tier that matches replaces `limits`.
    #[schemars(with = "Option<Vec<FileTier>>")]
    pub(crate) tiers: Vec<FileTier>,
    /// Other limits for some keys, such as "user=42". They take precedence over tiers.
    #[schemars(with = "Option<BTreeMap<String, OneOrMany<FileLimit>>>")]
    pub(crate) overrides: Vec<FileOverride>,
    /// Whether denials are enforced, only observed, or the policy is off.
    #[schemars(with = "Option<ModeName>")]
    pub(crate) mode: Option<SourceValue<String>>,
    /// Counts denied requests too. Fixed windows only.
    pub(crate) count_denied: Option<SourceValue<bool>>,
    /// Lets each key's windows begin at their own time.
    pub(crate) stagger: Option<SourceValue<bool>>,
    /// After a denial, denies everything for this long, such as 15m.
    pub(crate) block_for: Option<SourceValue<String>>,
    /// What a request costs: a number, or an attribute that holds one. Multiplied by the cost that
    /// comes with the request.
    pub(crate) cost: Option<FileCost>,
    /// What to do if the store does not answer.
    #[schemars(with = "Option<OnStoreErrorName>")]
    pub(crate) on_store_error: Option<SourceValue<String>>,
    /// How long to wait for the store, such as 10ms.
    pub(crate) store_deadline: Option<SourceValue<String>>,
    /// How exact a decision must be.
    pub(crate) precision: Option<SourceValue<FilePrecision>>,
    /// A template for stored keys in place of the file's; none for internal names.
    pub(crate) key_format: Option<SourceValue<String>>,
    /// Whether the gateway refuses denied callers, or lets them wait in line.
    #[schemars(with = "Option<OnDeniedName>")]
    pub(crate) on_denied: Option<SourceValue<String>>,
    /// The longest time that a caller waits in line. Defaults to 5s.
    pub(crate) max_wait: Option<SourceValue<String>>,
    /// How the gateway responds to denied callers, in place of the default response.
    pub(crate) denied: Option<FileDeniedResponse>,
}

/// An attribute and the patterns it must match.
#[derive(Clone, Debug)]
pub(crate) struct FileCondition {
    pub(crate) attribute: SourceValue<String>,
    pub(crate) patterns: Vec<SourceValue<String>>,
}

/// Limits for the requests that match.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "Tier")]
pub(crate) struct FileTier {
    /// As in `match`.
    #[schemars(with = "ConditionsShape")]
    pub(crate) when: Vec<FileCondition>,
    /// As in a policy.
    #[schemars(with = "OneOrMany<FileLimit>")]
    pub(crate) limits: Vec<FileLimit>,
}

/// Limits for one key.
#[derive(Clone, Debug)]
pub(crate) struct FileOverride {
    pub(crate) key: SourceValue<String>,
    pub(crate) limits: Vec<FileLimit>,
}

/// The modes.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum ModeName {
    Enforce,
    Shadow,
    Off,
}

/// What a gateway does with denied callers.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum OnDeniedName {
    Refuse,
    Wait,
}

impl FilePolicy {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "name",
        "match",
        "key",
        "limits",
        "algorithm",
        "tiers",
        "overrides",
        "mode",
        "count_denied",
        "stagger",
        "block_for",
        "cost",
        "on_store_error",
        "store_deadline",
        "precision",
        "key_format",
        "on_denied",
        "max_wait",
        "denied",
    ];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a policy", Self::FIELDS, report)?;
        if ["limits", "tiers", "overrides"].iter().all(|name| fields.get(name).is_none()) {
            report.add(&node.at, "a policy without \"limits\", \"tiers\" or \"overrides\"");
        }
        fields.required("name", "a name of its own", report);
        let key = fields.required(
            "key",
            "the attributes that tell callers apart; [] is one counter for all",
            report,
        );
        Some(Self {
            limits: fields.get("limits").map(|node| limits(node, report)),
            name: fields
                .text("name", report)
                .unwrap_or_else(|| SourceValue::new(0..0, String::new())),
            condition: fields.get("match").map(|n| conditions(n, report)).unwrap_or_default(),
            key: key.map(|node| key_parts(node, report)).unwrap_or_default(),
            algorithm: fields.text("algorithm", report),
            tiers: tiers(&fields, report),
            overrides: fields.get("overrides").map(|n| overrides(n, report)).unwrap_or_default(),
            mode: fields.text("mode", report),
            count_denied: fields.truth("count_denied", report),
            stagger: fields.truth("stagger", report),
            block_for: fields.text("block_for", report),
            cost: fields.get("cost").and_then(|node| FileCost::read(node, report)),
            on_store_error: fields.text("on_store_error", report),
            store_deadline: fields.text("store_deadline", report),
            precision: fields.get("precision").and_then(|n| FilePrecision::read(n, report)),
            key_format: fields.text("key_format", report),
            on_denied: fields.text("on_denied", report),
            max_wait: fields.text("max_wait", report),
            denied: fields.get("denied").and_then(|node| FileDeniedResponse::read(node, report)),
        })
    }
}

fn limits(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileLimit> {
    let items = one_or_many(node);
    if items.is_empty() {
        report.add(&node.at, "no limit in the list: expected at least one, or unlimited");
    }
    items.iter().filter_map(|item| FileLimit::read(item, report)).collect()
}

fn tiers(fields: &YamlFields<'_>, report: &mut ProblemReport<'_>) -> Vec<FileTier> {
    let items = fields.list("tiers", report).unwrap_or_default();
    items.iter().filter_map(|item| FileTier::read(item, report)).collect()
}

pub(crate) fn overrides(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileOverride> {
    let expected = "a mapping of keys to limits, such as { \"user=42\": [1000/minute] }";
    let entries = entries(node, expected, report).iter();
    entries
        .map(|entry| FileOverride { key: entry.name.clone(), limits: limits(&entry.node, report) })
        .collect()
}

fn key_parts(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileKeyPart> {
    one_or_many(node).iter().filter_map(|item| FileKeyPart::read(item, report)).collect()
}

impl FileTier {
    pub(crate) const FIELDS: &'static [&'static str] = &["when", "limits"];

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a tier", Self::FIELDS, report)?;
        let when = fields.required("when", "conditions, such as { plan: pro }", report);
        let allowed = fields.required("limits", "limits, such as [100/minute]", report);
        Some(Self {
            when: when.map(|node| conditions(node, report)).unwrap_or_default(),
            limits: allowed.map(|node| limits(node, report)).unwrap_or_default(),
        })
    }
}
