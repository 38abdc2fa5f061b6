//! The configuration as it is written in the file: its fields, not yet their meaning.
//!
//! Reading checks types and names and remembers the place of every value; [`compile`](crate::compile)
//! checks what the values mean. Both report to the same list, so that one run shows every mistake.
//! Each struct is one table ([`file_table!`]), from which the JSON Schema is generated as well.

mod limit;
mod policy;
mod policy_sections;
mod requests;
mod secret;
mod table;

use std::collections::BTreeMap;

use tidegate_core::AlgorithmKind;

pub(crate) use limit::{FileLimit, FileLimitFields, FileLimitForm};
pub use policy::FileCondition;
pub(crate) use policy::{FileOverride, FilePolicy, FileTier, overrides};
pub(crate) use policy_sections::{
    FileCost, FileCostFields, FileKeyFields, FileKeyPart, FilePrecision, KeyFormName,
};
pub use requests::{FileRequestRules, RefuseOrKeep};
pub(crate) use requests::{OverrideFieldsRule, SchemesRule, UnderscoresRule};
pub use secret::FileSecret;
pub(crate) use secret::SecretPlace;
pub use table::{
    FileChoice, FileTable, FileValue, OneOf, OneOrMany, TableField, YamlScalar, list, table_schema,
    texts,
};
pub(crate) use table::{add_fields, choose};

use crate::file_table;
use crate::files::problem::ProblemReport;
use crate::files::settings::{LegacyHeaders, OnStoreError, PathCase};
use crate::files::yaml::{SourceValue, YamlNode, entries, one_or_many, text};

file_table! {
    /// A Tidegate configuration.
    pub(crate) struct ConfigFile("Tidegate", "a configuration", extended at Top) {
        /// Where counters are stored: memory, redis://host:6379/0, rediss://, redis+sentinel://h1,h2/service
        /// or redis+cluster://h1,h2.
        store: Option<SourceValue<String>>,
        /// The password of a Redis whose address has none: where to find it, or the password itself.
        store_password: Option<FileSecret>,
        /// A template for stored keys, for a Redis that is shared with another limiter: {entity},
        /// {limit}, {window_index}, {window_start} and {window_start_ms}.
        key_format: Option<SourceValue<String>>,
        /// Networks of proxies whose X-Forwarded-For is trusted, such as 10.0.0.0/8. Defaults to none.
        trusted_proxies: Vec<SourceValue<String>> as OneOrMany<String>
            = texts("a network, such as 10.0.0.0/8"),
        /// Whether letter case matters in paths: exact (the default), or ignore, for services such as
        /// Express and ASP.NET.
        path_case: Option<SourceValue<PathCase>>,
        /// How requests are read over HTTP, and which headers responses have.
        http: FileHttp,
        /// Defaults for policies.
        defaults: FileDefaults,
        /// The policies. All that match a request apply together.
        policies: Vec<FilePolicy> [wanted "a list of policies"] = policy::policies,
    }
}

file_table! {
    /// How requests are read over HTTP, and which headers responses have.
    pub(crate) struct FileHttp("Http", "http") {
        /// Adds X-RateLimit-Limit, -Remaining and -Reset to responses, with the reset in this unit:
        /// seconds or milliseconds from now, or epoch-seconds.
        legacy_headers: Option<SourceValue<LegacyHeaders>>,
        /// The rules for requests that a proxy asks about, or that a layer in a program limits.
        requests: Option<FileRequestRules>,
    }
}

file_table! {
    /// Defaults for policies.
    pub(crate) struct FileDefaults("Defaults", "defaults") {
        /// The algorithm of limits.
        algorithm: Option<SourceValue<AlgorithmKind>>,
        /// What to do if the store does not answer.
        on_store_error: Option<SourceValue<OnStoreError>>,
        /// How long to wait for the store, such as 10ms.
        store_deadline: Option<SourceValue<String>>,
        /// How exact a decision must be.
        precision: Option<SourceValue<FilePrecision>>,
    }
}

/// All algorithms that are registered.
impl FileChoice for AlgorithmKind {
    const ALL: &'static [Self] = Self::ALL;
    const WHAT: &'static str = "algorithm";
    const SCHEMA: &'static str = "AlgorithmName";
    const ABOUT: &'static str = "The algorithms.";

    fn name(self) -> &'static str {
        Self::name(self)
    }

    fn about() -> String {
        let line = |kind: &Self| format!(" {kind}: {}.", kind.summary());
        Self::ALL.iter().map(line).fold(Self::ABOUT.to_owned(), |about, line| about + &line)
    }
}

/// The schema of a mapping from attributes to patterns.
pub type ConditionsShape = BTreeMap<String, OneOrMany<YamlScalar>>;

/// Each attribute with its patterns, in the order written.
pub fn conditions(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Vec<FileCondition>> {
    let expected = "a mapping of attributes to patterns, such as { path: /login, method: POST }";
    let mut conditions = Vec::new();
    for entry in entries(node, expected, report) {
        let items = one_or_many(&entry.node).iter();
        let patterns = items.filter_map(|item| text(item, "a pattern, or a list", report));
        let patterns = patterns.collect();
        conditions.push(FileCondition { attribute: entry.name.clone(), patterns });
    }
    Some(conditions)
}
