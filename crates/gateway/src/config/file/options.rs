//! The smaller parts of a gateway as they are written: header rules, API keys, tokens, access log.

use std::collections::BTreeMap;

use tidegate_policy::section::{
    FileSecret, FileTable as _, FileValue, OneOf, OneOrMany, ProblemReport, SourceValue, YamlNode,
    entries, file_choice, file_table, text, texts,
};

use crate::config::JwtAlgorithm;

file_table! {
    /// Changes to the headers of a message: first removed, then set, then added.
    pub struct FileHeaderRules("HeaderRules", "header rules") {
        /// Headers to remove.
        remove: Vec<SourceValue<String>> as OneOrMany<String> = texts("a name"),
        /// Headers to set, replacing any of the same name.
        set: Vec<FileHeaderRule> as BTreeMap<String, FileSecret> = rule_list,
        /// Headers to add beside any of the same name.
        add: Vec<FileHeaderRule> as BTreeMap<String, FileSecret> = rule_list,
    }
}

/// A header that is set or added.
#[derive(Clone, Debug)]
pub struct FileHeaderRule {
    pub name: SourceValue<String>,
    pub value: FileSecret,
}

/// A header of a message.
#[derive(Clone, Debug)]
pub struct FileHeader {
    pub name: SourceValue<String>,
    pub value: SourceValue<String>,
}

file_table! {
    /// Where the API key of a request is: one of these.
    pub struct FileApiKey("ApiKey", "where the API key is") {
        /// In this header.
        header: Option<SourceValue<String>>,
        /// In this query parameter.
        query: Option<SourceValue<String>>,
        /// In this cookie.
        cookie: Option<SourceValue<String>>,
    }
}

file_table! {
    /// How tokens are verified.
    pub struct FileJwt("Jwt", "jwt") {
        /// The file with the keys: a JWKS, a public key in PEM, or the secret for HS256.
        keys: SourceValue<String> [required "a file: a JWKS, a key in PEM, or a secret"],
        /// The algorithms that a token may be signed with: HS256, RS256, ES256, EdDSA.
        algorithms: Vec<SourceValue<String>> as OneOrMany<OneOf<JwtAlgorithm>>
            [wanted "HS256, RS256, ES256 or EdDSA"] = texts("a name"),
        /// Whether a request without a token is refused. Defaults to false.
        required: Option<SourceValue<bool>>,
        /// The issuer (iss) that a token must have.
        issuer: Option<SourceValue<String>>,
        /// The audience (aud) that a token must have.
        audience: Option<SourceValue<String>>,
        /// How far clocks may be apart. Defaults to 30s.
        leeway: Option<SourceValue<String>>,
        /// Whether a token without exp, which never expires, is refused. Defaults to true.
        require_exp: Option<SourceValue<bool>>,
        /// How long ago a token may have been issued (iat), such as 1h. Older tokens, and tokens without
        /// iat, are refused. No bound if absent.
        max_age: Option<SourceValue<String>>,
    }
}

file_table! {
    /// Where requests are logged, one JSON object per line.
    pub struct FileAccessLog("AccessLog", "an access log") {
        /// A file; - is standard output.
        file: SourceValue<String> [required "a file; - is standard output"],
        /// The share of requests to log. Defaults to 100%.
        sample: Option<SourceValue<String>>,
        /// How callers are shown. Defaults to hashed.
        keys: Option<SourceValue<LogKeys>>,
    }
}

file_choice! {
    /// How callers are shown in a log.
    pub enum LogKeys("choice", "KeysName", "How callers are shown in a log.") {
        Hashed = "hashed",
        Plain = "plain",
    }
}

/// Reports an API key that is in several places or nowhere.
pub(super) fn api_key(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<FileApiKey> {
    let key = FileApiKey::read(node, report)?;
    if FileApiKey::FIELDS.iter().filter(|name| node.has(name)).count() != 1 {
        report.add(&node.at, "expected exactly one of header, query and cookie");
    }
    Some(key)
}

/// Names, and values that may be secret.
fn rule_list(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Vec<FileHeaderRule>> {
    let entries = entries(node, FIELDS_BY_NAME, report).iter();
    let rules = entries.filter_map(|entry| {
        let value = FileSecret::read(&entry.node, report)?;
        Some(FileHeaderRule { name: entry.name.clone(), value })
    });
    Some(rules.collect())
}

/// Names and values.
pub(super) fn field_list(
    node: &YamlNode,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<FileHeader>> {
    let entries = entries(node, FIELDS_BY_NAME, report).iter();
    let headers = entries.filter_map(|entry| {
        let value = text(&entry.node, "the value of a header", report)?;
        Some(FileHeader { name: entry.name.clone(), value })
    });
    Some(headers.collect())
}

const FIELDS_BY_NAME: &str = "headers by name, such as { x-team: blue }";
