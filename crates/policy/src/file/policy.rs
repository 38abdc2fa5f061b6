//! A policy as the user wrote it.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::{
    AlgorithmName, Conditions, CostFile, DeniedFile, KeyPart, LimitFile, OnStoreErrorName,
    OneOrMany, PrecisionFile, conditions,
};
use crate::problem::Report;
use crate::yaml::{Fields, Node, Spot, entries, one_or_many};

/// Who is limited, to what, and how.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Policy")]
pub(crate) struct PolicyFile {
    /// Its name in responses and metrics. Counters belong to it, so renaming a policy forgets them.
    pub(crate) name: Spot<String>,
    /// The requests it applies to: attribute by attribute, an exact value, a list, a prefix*, a
    /// /glob/** on paths, or !not. Everything if absent.
    #[schemars(rename = "match", with = "Option<Conditions>")]
    pub(crate) condition: Vec<Condition>,
    /// The attributes that distinguish callers; an empty list means one counter for all. A request
    /// that lacks one of them is not limited by this policy.
    #[schemars(with = "OneOrMany<KeyPart>")]
    pub(crate) key: Vec<KeyPart>,
    /// What each key may do. All limits must pass.
    #[schemars(with = "Option<OneOrMany<LimitFile>>")]
    pub(crate) limits: Option<Vec<LimitFile>>,
    /// The algorithm of limits that name none.
    #[schemars(with = "Option<AlgorithmName>")]
    pub(crate) algorithm: Option<Spot<String>>,
    /// Other limits for some requests: the first that matches replaces `limits`.
    #[schemars(with = "Option<Vec<Tier>>")]
    pub(crate) tiers: Vec<Tier>,
    /// Other limits for some keys, such as "user=42". They take precedence over tiers.
    #[schemars(with = "Option<BTreeMap<String, OneOrMany<LimitFile>>>")]
    pub(crate) overrides: Vec<Override>,
    /// Whether denials are enforced, only observed, or not even computed.
    #[schemars(with = "Option<ModeName>")]
    pub(crate) mode: Option<Spot<String>>,
    /// Counts denied requests too. Fixed windows only.
    pub(crate) count_denied: Option<Spot<bool>>,
    /// Lets each key's windows begin at their own time.
    pub(crate) stagger: Option<Spot<bool>>,
    /// After a denial, denies everything for this long, such as 15m.
    pub(crate) block_for: Option<Spot<String>>,
    /// What a request costs: a number, or an attribute that holds one. Multiplied by the cost that
    /// comes with the request.
    pub(crate) cost: Option<CostFile>,
    /// What to do if the store does not answer.
    #[schemars(with = "Option<OnStoreErrorName>")]
    pub(crate) on_store_error: Option<Spot<String>>,
    /// How long to wait for the store, such as 10ms.
    pub(crate) store_deadline: Option<Spot<String>>,
    /// How exact a decision must be.
    pub(crate) precision: Option<Spot<PrecisionFile>>,
    /// A template for stored keys in place of the file's, or none: names of our own.
    pub(crate) key_format: Option<Spot<String>>,
    /// Whether the gateway refuses denied callers, or lets them wait in line.
    #[schemars(with = "Option<OnDeniedName>")]
    pub(crate) on_denied: Option<Spot<String>>,
    /// The longest that anyone waits in line. Defaults to 5s.
    pub(crate) max_wait: Option<Spot<String>>,
    /// How the gateway responds to denied callers, in place of the default response.
    pub(crate) denied: Option<DeniedFile>,
}

/// An attribute and the patterns it must match.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) attribute: Spot<String>,
    pub(crate) patterns: Vec<Spot<String>>,
}

/// Limits for the requests that match.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Tier {
    /// As in `match`.
    #[schemars(with = "Conditions")]
    pub(crate) when: Vec<Condition>,
    /// As in a policy.
    #[schemars(with = "OneOrMany<LimitFile>")]
    pub(crate) limits: Vec<LimitFile>,
}

/// Limits for one key.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) key: Spot<String>,
    pub(crate) limits: Vec<LimitFile>,
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

impl PolicyFile {
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

    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let fields = Fields::of(node, "a policy", Self::FIELDS, report)?;
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
            name: fields.text("name", report).unwrap_or_else(|| Spot::new(0..0, String::new())),
            condition: fields.get("match").map(|n| conditions(n, report)).unwrap_or_default(),
            key: key.map(|node| key_parts(node, report)).unwrap_or_default(),
            algorithm: fields.text("algorithm", report),
            tiers: tiers(&fields, report),
            overrides: fields.get("overrides").map(|n| overrides(n, report)).unwrap_or_default(),
            mode: fields.text("mode", report),
            count_denied: fields.truth("count_denied", report),
            stagger: fields.truth("stagger", report),
            block_for: fields.text("block_for", report),
            cost: fields.get("cost").and_then(|node| CostFile::read(node, report)),
            on_store_error: fields.text("on_store_error", report),
            store_deadline: fields.text("store_deadline", report),
            precision: fields.get("precision").and_then(|n| PrecisionFile::read(n, report)),
            key_format: fields.text("key_format", report),
            on_denied: fields.text("on_denied", report),
            max_wait: fields.text("max_wait", report),
            denied: fields.get("denied").and_then(|node| DeniedFile::read(node, report)),
        })
    }
}

fn limits(node: &Node, report: &mut Report<'_>) -> Vec<LimitFile> {
    let items = one_or_many(node);
    if items.is_empty() {
        report.add(&node.at, "no limit in the list: expected at least one, or unlimited");
    }
    items.iter().filter_map(|item| LimitFile::read(item, report)).collect()
}

fn tiers(fields: &Fields<'_>, report: &mut Report<'_>) -> Vec<Tier> {
    let items = fields.list("tiers", report).unwrap_or_default();
    items.iter().filter_map(|item| Tier::read(item, report)).collect()
}

pub(crate) fn overrides(node: &Node, report: &mut Report<'_>) -> Vec<Override> {
    let expected = "a mapping of keys to limits, such as { \"user=42\": [1000/minute] }";
    let entries = entries(node, expected, report).iter();
    entries
        .map(|entry| Override { key: entry.name.clone(), limits: limits(&entry.node, report) })
        .collect()
}

fn key_parts(node: &Node, report: &mut Report<'_>) -> Vec<KeyPart> {
    one_or_many(node).iter().filter_map(|item| KeyPart::read(item, report)).collect()
}

impl Tier {
    pub(crate) const FIELDS: &'static [&'static str] = &["when", "limits"];

    fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let fields = Fields::of(node, "a tier", Self::FIELDS, report)?;
        let when = fields.required("when", "conditions, such as { plan: pro }", report);
        let allowed = fields.required("limits", "limits, such as [100/minute]", report);
        Some(Self {
            when: when.map(|node| conditions(node, report)).unwrap_or_default(),
            limits: allowed.map(|node| limits(node, report)).unwrap_or_default(),
        })
    }
}
