//! The smaller parts of a gateway as they are written: header rules, API keys, tokens, access log.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use super::secret::{FileSecret, SecretShape};
use crate::file::OneOrMany;
use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlFields, YamlNode, entries, one_or_many, text};

/// Changes to the headers of a message: first removed, then set, then added.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HeaderRules")]
pub(crate) struct FileHeaderRules {
    /// Headers to remove.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub(crate) remove: Vec<SourceValue<String>>,
    /// Headers to set, replacing any of the same name.
    #[schemars(with = "Option<BTreeMap<String, SecretShape>>")]
    pub(crate) set: Vec<FileHeaderRule>,
    /// Headers to add beside any of the same name.
    #[schemars(with = "Option<BTreeMap<String, SecretShape>>")]
    pub(crate) add: Vec<FileHeaderRule>,
}

/// A header that is set or added.
#[derive(Clone, Debug)]
pub(crate) struct FileHeaderRule {
    pub(crate) name: SourceValue<String>,
    pub(crate) value: FileSecret,
}

/// A header of a message.
#[derive(Clone, Debug)]
pub(crate) struct FileHeader {
    pub(crate) name: SourceValue<String>,
    pub(crate) value: SourceValue<String>,
}

/// Where the API key of a request is: one of these.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "ApiKey")]
pub(crate) struct FileApiKey {
    /// In this header.
    pub(crate) header: Option<SourceValue<String>>,
    /// In this query parameter.
    pub(crate) query: Option<SourceValue<String>>,
    /// In this cookie.
    pub(crate) cookie: Option<SourceValue<String>>,
}

/// How tokens are verified.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Jwt")]
pub(crate) struct FileJwt {
    /// The file with the keys: a JWKS, a public key in PEM, or the secret for HS256.
    pub(crate) keys: SourceValue<String>,
    /// The algorithms that a token may be signed with: HS256, RS256, ES256, EdDSA.
    #[schemars(with = "OneOrMany<JwtAlgorithmName>")]
    pub(crate) algorithms: Vec<SourceValue<String>>,
    /// Whether a request without a token is refused. Defaults to false.
    pub(crate) required: Option<SourceValue<bool>>,
    /// The issuer (iss) that a token must have.
    pub(crate) issuer: Option<SourceValue<String>>,
    /// The audience (aud) that a token must have.
    pub(crate) audience: Option<SourceValue<String>>,
    /// How far clocks may be apart. Defaults to 30s.
    pub(crate) leeway: Option<SourceValue<String>>,
    /// Whether a token without exp, which never expires, is refused. Defaults to true.
    pub(crate) require_exp: Option<SourceValue<bool>>,
    /// How long ago a token may have been issued (iat), such as 1h. Older tokens, and tokens without
    /// iat, are refused. No bound if absent.
    pub(crate) max_age: Option<SourceValue<String>>,
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
pub(crate) struct FileAccessLog {
    /// A file; - is standard output.
    pub(crate) file: SourceValue<String>,
    /// The share of requests to log. Defaults to 100%.
    pub(crate) sample: Option<SourceValue<String>>,
    /// How callers are shown. Defaults to hashed.
    #[schemars(with = "Option<LogKeysName>")]
    pub(crate) keys: Option<SourceValue<String>>,
}

/// How callers are shown in a log.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[allow(dead_code, reason = "describes a choice to editors")]
#[schemars(rename = "KeysName")]
enum LogKeysName {
    Hashed,
    Plain,
}

/// Reads the header rules in a member of a mapping.
pub(crate) fn headers(
    fields: &YamlFields<'_>,
    name: &str,
    report: &mut ProblemReport<'_>,
) -> Option<FileHeaderRules> {
    fields.get(name).and_then(|node| FileHeaderRules::read(node, report))
}

impl FileHeaderRules {
    pub(crate) const FIELDS: &'static [&'static str] = &["remove", "set", "add"];

    pub(crate) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "header rules", Self::FIELDS, report)?;
        let remove = fields.get("remove").map(one_or_many).unwrap_or_default();
        let remove = remove.iter().filter_map(|item| text(item, "a name", report)).collect();
        let mut list =
            |name| fields.get(name).map(|node| rule_list(node, report)).unwrap_or_default();
        Some(Self { remove, set: list("set"), add: list("add") })
    }
}

/// Names, and values that may be secret.
fn rule_list(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileHeaderRule> {
    let entries = entries(node, FIELDS_BY_NAME, report).iter();
    entries
        .filter_map(|entry| {
            let value = FileSecret::read(&entry.node, report)?;
            Some(FileHeaderRule { name: entry.name.clone(), value })
        })
        .collect()
}

/// Names and values.
pub(crate) fn field_list(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileHeader> {
    let entries = entries(node, FIELDS_BY_NAME, report).iter();
    entries
        .filter_map(|entry| {
            let value = text(&entry.node, "the value of a header", report)?;
            Some(FileHeader { name: entry.name.clone(), value })
        })
        .collect()
}

const FIELDS_BY_NAME: &str = "headers by name, such as { x-team: blue }";

impl FileApiKey {
    pub(crate) const FIELDS: &'static [&'static str] = &["header", "query", "cookie"];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "where the API key is", Self::FIELDS, report)?;
        let named = Self::FIELDS.iter().filter(|name| fields.get(name).is_some()).count();
        if named != 1 {
            report.add(&node.at, "expected exactly one of header, query and cookie");
        }
        Some(Self {
            header: fields.text("header", report),
            query: fields.text("query", report),
            cookie: fields.text("cookie", report),
        })
    }
}

impl FileJwt {
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

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "jwt", Self::FIELDS, report)?;
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

impl FileAccessLog {
    pub(crate) const FIELDS: &'static [&'static str] = &["file", "sample", "keys"];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "an access log", Self::FIELDS, report)?;
        fields.required("file", "a file; - is standard output", report);
        Some(Self {
            file: fields.text("file", report)?,
            sample: fields.text("sample", report),
            keys: fields.text("keys", report),
        })
    }
}
