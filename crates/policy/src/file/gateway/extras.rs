//! The smaller parts of a gateway: header rules, tokens, keys, the access log.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::secret::{SecretFile, SecretShape};
use crate::file::OneOrMany;
use crate::problem::Report;
use crate::yaml::{Fields, Node, Spot, entries, one_or_many, text};

/// Changes to the headers of a message: first removed, then set, then added.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HeaderRules")]
pub(crate) struct HeaderRulesFile {
    /// Headers to remove.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub(crate) remove: Vec<Spot<String>>,
    /// Headers to set, replacing any of the same name.
    #[schemars(with = "Option<BTreeMap<String, SecretShape>>")]
    pub(crate) set: Vec<RuleFile>,
    /// Headers to add beside any of the same name.
    #[schemars(with = "Option<BTreeMap<String, SecretShape>>")]
    pub(crate) add: Vec<RuleFile>,
}

/// A header that is set or added.
#[derive(Clone, Debug)]
pub(crate) struct RuleFile {
    pub(crate) name: Spot<String>,
    pub(crate) value: SecretFile,
}

/// A header of a message.
#[derive(Clone, Debug)]
pub(crate) struct FieldFile {
    pub(crate) name: Spot<String>,
    pub(crate) value: Spot<String>,
}

/// Where a caller's API key is found: one of these.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "ApiKey")]
pub(crate) struct ApiKeyFile {
    /// In this header.
    pub(crate) header: Option<Spot<String>>,
    /// In this query parameter.
    pub(crate) query: Option<Spot<String>>,
    /// In this cookie.
    pub(crate) cookie: Option<Spot<String>>,
}

/// How tokens are verified.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Jwt")]
pub(crate) struct JwtFile {
    /// A file: a JWKS, a public key in PEM, or the secret for HS256.
    pub(crate) keys: Spot<String>,
    /// What a token may be signed with: HS256, RS256, ES256, EdDSA.
    #[schemars(with = "OneOrMany<JwtAlgorithmName>")]
    pub(crate) algorithms: Vec<Spot<String>>,
    /// Whether a request without a token is refused. Defaults to false.
    pub(crate) required: Option<Spot<bool>>,
    /// The issuer that a token must have.
    pub(crate) issuer: Option<Spot<String>>,
    /// The audience that a token must be meant for.
    pub(crate) audience: Option<Spot<String>>,
    /// How far clocks may be apart. Defaults to 30s.
    pub(crate) leeway: Option<Spot<String>>,
    /// Whether a token without exp, which never expires, is refused. Defaults to true.
    pub(crate) require_exp: Option<Spot<bool>>,
    /// How long ago a token may have been issued (iat), such as 1h. Older ones, and those that do not
    /// say, are refused. No bound if absent.
    pub(crate) max_age: Option<Spot<String>>,
}

/// The signature algorithms.
#[derive(JsonSchema)]
#[allow(dead_code, clippy::upper_case_acronyms, reason = "describes a choice to editors")]
enum JwtAlgorithmName {
    HS256,
    RS256,
    ES256,
    EdDSA,
}

/// Where requests are logged, one JSON object per line.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "AccessLog")]
pub(crate) struct AccessLogFile {
    /// A file; - is standard output.
    pub(crate) file: Spot<String>,
    /// The share of requests to log. Defaults to 100%.
    pub(crate) sample: Option<Spot<String>>,
    /// How callers are shown. Defaults to hashed.
    #[schemars(with = "Option<KeysName>")]
    pub(crate) keys: Option<Spot<String>>,
}

/// How callers are shown in a log.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
enum KeysName {
    Hashed,
    Plain,
}

/// The header rules in a member of a mapping.
pub(crate) fn headers(
    fields: &Fields<'_>,
    name: &str,
    report: &mut Report<'_>,
) -> Option<HeaderRulesFile> {
    fields.get(name).and_then(|node| HeaderRulesFile::read(node, report))
}

impl HeaderRulesFile {
    pub(crate) const FIELDS: &'static [&'static str] = &["remove", "set", "add"];

    pub(crate) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let fields = Fields::of(node, "rules for fields", Self::FIELDS, report)?;
        let remove = fields.get("remove").map(one_or_many).unwrap_or_default();
        let remove = remove.iter().filter_map(|item| text(item, "a name", report)).collect();
        let mut list = |name| fields.get(name).map(|it| rule_list(it, report)).unwrap_or_default();
        Some(Self { remove, set: list("set"), add: list("add") })
    }
}

/// Names, and values that may be secret.
fn rule_list(node: &Node, report: &mut Report<'_>) -> Vec<RuleFile> {
    let entries = entries(node, FIELDS_BY_NAME, report).iter();
    entries
        .filter_map(|entry| {
            let value = SecretFile::read(&entry.node, report)?;
            Some(RuleFile { name: entry.name.clone(), value })
        })
        .collect()
}

/// Names and values.
pub(crate) fn field_list(node: &Node, report: &mut Report<'_>) -> Vec<FieldFile> {
    let entries = entries(node, FIELDS_BY_NAME, report).iter();
    entries
        .filter_map(|entry| {
            let value = text(&entry.node, "the value of a field", report)?;
            Some(FieldFile { name: entry.name.clone(), value })
        })
        .collect()
}

const FIELDS_BY_NAME: &str = "fields by name, such as { x-team: blue }";

impl ApiKeyFile {
    pub(crate) const FIELDS: &'static [&'static str] = &["header", "query", "cookie"];

    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let fields = Fields::of(node, "where a key is found", Self::FIELDS, report)?;
        let named = Self::FIELDS.iter().filter(|name| fields.get(name).is_some()).count();
        if named != 1 {
            report.add(&node.at, "expected one of header, query and cookie");
        }
        Some(Self {
            header: fields.text("header", report),
            query: fields.text("query", report),
            cookie: fields.text("cookie", report),
        })
    }
}

impl JwtFile {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "keys",
        "algorithms",
        "required",
        "issuer",
        "audience",
        "leeway",
        "require_exp",
        "max_age",
    ];

    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let fields = Fields::of(node, "jwt", Self::FIELDS, report)?;
        fields.required("keys", "a file: a JWKS, a key in PEM, or a secret", report);
        let algorithms = fields.required("algorithms", "HS256, RS256, ES256 or EdDSA", report);
        let algorithms = algorithms.map(one_or_many).unwrap_or_default();
        let algorithms = algorithms.iter().filter_map(|item| text(item, "a name", report));
        Some(Self {
            algorithms: algorithms.collect(),
            keys: fields.text("keys", report)?,
            required: fields.truth("required", report),
            issuer: fields.text("issuer", report),
            audience: fields.text("audience", report),
            leeway: fields.text("leeway", report),
            require_exp: fields.truth("require_exp", report),
            max_age: fields.text("max_age", report),
        })
    }
}

impl AccessLogFile {
    pub(crate) const FIELDS: &'static [&'static str] = &["file", "sample", "keys"];

    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        let fields = Fields::of(node, "an access log", Self::FIELDS, report)?;
        fields.required("file", "a file; - is standard output", report);
        Some(Self {
            file: fields.text("file", report)?,
            sample: fields.text("sample", report),
            keys: fields.text("keys", report),
        })
    }
}
