//! A policy as it is written in the file.

use std::collections::BTreeMap;

use tidegate_core::AlgorithmKind;

use super::{
    ConditionsShape, FileCost, FileKeyPart, FileLimit, FilePrecision, FileValue, OneOrMany,
    conditions, list,
};
use crate::file_table;
use crate::files::problem::ProblemReport;
use crate::files::settings::{OnStoreError, PolicyMode};
use crate::files::yaml::{SourceValue, YamlNode, YamlValue, entries, one_or_many};

file_table! {
    /// A policy: the requests it applies to, its key and its limits.
    pub(crate) struct FilePolicy("Policy", "a policy", extended at Policy) {
        /// Its name in responses and metrics. Counters belong to the name: a renamed policy starts with new
        /// ones.
        name: SourceValue<String> [wanted "a name that no other policy has"],
        /// The requests it applies to, by attribute: an exact value, a list, a prefix*, a /glob/** on
        /// paths, or !not. All requests if absent.
        condition as "match": Vec<FileCondition> as ConditionsShape = conditions,
        /// The attributes that distinguish callers; an empty list means one counter for all. A request
        /// that lacks one of them is not limited by this policy.
        key: Vec<FileKeyPart> as OneOrMany<FileKeyPart>
            [wanted "the attributes that tell callers apart; [] is one counter for all"]
            = each::<FileKeyPart>,
        /// The limits of each key. A request must be within all of them.
        limits: Option<Vec<FileLimit>> as OneOrMany<FileLimit> = limits,
        /// The algorithm of limits without one of their own.
        algorithm: Option<SourceValue<AlgorithmKind>>,
        /// How many steps the windows of limits have, 2 to 60. Stepped windows only.
        steps: Option<SourceValue<String>> as u64,
        /// Other limits for some requests: the first tier that matches replaces `limits`.
        tiers: Vec<FileTier>,
        /// Other limits for some keys, such as "user=42". They take precedence over tiers.
        overrides: Vec<FileOverride> as BTreeMap<String, OneOrMany<FileLimit>>
            = |node, report| Some(overrides(node, report)),
        /// Whether denials are enforced, only observed, or the policy is off.
        mode: Option<SourceValue<PolicyMode>>,
        /// Counts denied requests too. Fixed windows only.
        count_denied: Option<SourceValue<bool>>,
        /// Lets each key's windows begin at their own time.
        stagger: Option<SourceValue<bool>>,
        /// After a denial, denies everything for this long, such as 15m.
        block_for: Option<SourceValue<String>>,
        /// What a request costs: a number, or an attribute that holds one. Multiplied by the cost that
        /// comes with the request.
        cost: Option<FileCost>,
        /// What to do if the store does not answer.
        on_store_error: Option<SourceValue<OnStoreError>>,
        /// How long to wait for the store, such as 10ms.
        store_deadline: Option<SourceValue<String>>,
        /// How exact a decision must be.
        precision: Option<SourceValue<FilePrecision>>,
        /// A template for stored keys in place of the file's; none for internal names.
        key_format: Option<SourceValue<String>>,
    }
}

/// An attribute and the patterns it must match.
#[derive(Clone, Debug)]
pub struct FileCondition {
    /// Its name.
    pub attribute: SourceValue<String>,
    /// The patterns, of which one must match.
    pub patterns: Vec<SourceValue<String>>,
}

file_table! {
    /// Limits for the requests that match.
    pub(crate) struct FileTier("Tier", "a tier") {
        /// As in `match`.
        when: Vec<FileCondition> as ConditionsShape
            [wanted "conditions, such as { plan: pro }"] = conditions,
        /// As in a policy.
        limits: Vec<FileLimit> as OneOrMany<FileLimit>
            [wanted "limits, such as [100/minute]"] = limits,
    }
}

/// Limits for one key.
#[derive(Clone, Debug)]
pub(crate) struct FileOverride {
    pub(crate) key: SourceValue<String>,
    pub(crate) limits: Vec<FileLimit>,
}

pub(super) fn policies(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Vec<FilePolicy>> {
    let read = |node: &YamlNode, report: &mut ProblemReport<'_>| {
        let is_absent = |name: &&str| !node.has(name);
        let is_map = matches!(node.value, YamlValue::Map(_));
        if is_map && ["limits", "tiers", "overrides"].iter().all(is_absent) {
            report.add(&node.at, "a policy without \"limits\", \"tiers\" or \"overrides\"");
        }
        FilePolicy::read(node, report)
    };
    list(node, read, report)
}

/// Every valid item of a list, or the only one.
fn each<T: FileValue>(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Vec<T>> {
    Some(one_or_many(node).iter().filter_map(|item| T::read(item, report)).collect())
}

fn limits(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Vec<FileLimit>> {
    if one_or_many(node).is_empty() {
        report.add(&node.at, "no limit in the list: expected at least one, or unlimited");
    }
    each(node, report)
}

pub(crate) fn overrides(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileOverride> {
    let expected = "a mapping of keys to limits, such as { \"user=42\": [1000/minute] }";
    let mut overrides = Vec::new();
    for entry in entries(node, expected, report) {
        let limits = limits(&entry.node, report).unwrap_or_default();
        overrides.push(FileOverride { key: entry.name.clone(), limits });
    }
    overrides
}
