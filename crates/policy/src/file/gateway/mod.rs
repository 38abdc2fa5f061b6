//! A gateway as it is written in the file.

mod secret;
mod sections;
mod upstream;

use schemars::JsonSchema;

pub(crate) use secret::{FileSecret, SecretShape};
pub(crate) use sections::{
    FileAccessLog, FileApiKey, FileHeader, FileHeaderRule, FileHeaderRules, FileJwt, field_list,
    headers,
};
#[cfg(test)]
pub(crate) use upstream::FileUpstreamFields;
pub(crate) use upstream::{FileHealthCheck, FileTimeouts, FileUploads, FileUpstream};

use super::{
    ConditionsShape, FileCondition, FileRequestRules, OneOrMany, RefuseOrKeep, conditions,
};
use crate::problem::ProblemReport;
use crate::yaml::{ByteRange, SourceValue, YamlFields, YamlNode, entries, one_or_many, text};

/// A gateway, which forwards the requests that policies allow to services.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Gateway")]
pub(crate) struct FileGateway {
    /// Where to listen: host:port, one or several. Defaults to 127.0.0.1:8000.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub(crate) listen: Vec<SourceValue<String>>,
    /// The services, by name: an address such as http://10.0.0.1:3000, a list of them, or fields.
    #[schemars(with = "std::collections::BTreeMap<String, upstream::UpstreamShape>")]
    pub(crate) upstreams: Vec<FileUpstream>,
    /// Which requests go to which service: the first match wins. Without routes, all requests go to
    /// the only service.
    #[schemars(with = "Option<Vec<FileRoute>>")]
    pub(crate) routes: Vec<FileRoute>,
    /// How long services may take, by default.
    pub(crate) timeouts: Option<FileTimeouts>,
    /// How slowly clients may send the bodies of their requests, for all services.
    pub(crate) uploads: Option<FileUploads>,
    /// Changes to the headers of every request.
    pub(crate) request_headers: Option<FileHeaderRules>,
    /// Changes to the headers of every response.
    pub(crate) response_headers: Option<FileHeaderRules>,
    /// Which parts of requests are refused or removed because services are known to read them in two
    /// ways.
    pub(crate) requests: Option<FileRequestRules>,
    /// The same as encoded_slashes in requests.
    #[schemars(with = "Option<RefuseOrKeep>")]
    pub(crate) encoded_slashes: Option<SourceValue<String>>,
    /// Where the attribute `api_key` comes from. Defaults to the header x-api-key.
    pub(crate) api_key: Option<FileApiKey>,
    /// How tokens are verified; their claims are the attributes `jwt:...`.
    pub(crate) jwt: Option<FileJwt>,
    /// Where requests are logged.
    pub(crate) access_log: Option<FileAccessLog>,
    /// Its place in the file.
    #[schemars(skip)]
    pub(crate) at: ByteRange,
}

/// Requests, and where they go.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Route")]
pub(crate) struct FileRoute {
    /// Its name in logs, and the attribute `route`. Defaults to its service's name.
    pub(crate) name: Option<SourceValue<String>>,
    /// The requests it applies to, by host, path, method and header:name, as in policies.
    /// All requests if absent.
    #[schemars(rename = "match", with = "Option<ConditionsShape>")]
    pub(crate) condition: Vec<FileCondition>,
    /// The service, by name.
    pub(crate) upstream: SourceValue<String>,
    /// Changes to the headers of its requests, after those that apply to all requests.
    pub(crate) request_headers: Option<FileHeaderRules>,
    /// Changes to the headers of its responses.
    pub(crate) response_headers: Option<FileHeaderRules>,
}

impl FileGateway {
    pub(crate) const FIELDS: &'static [&'static str] = &[
        "listen",
        "upstreams",
        "routes",
        "timeouts",
        "uploads",
        "request_headers",
        "response_headers",
        "requests",
        "encoded_slashes",
        "api_key",
        "jwt",
        "access_log",
    ];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a gateway", Self::FIELDS, report)?;
        let listen = fields.get("listen").map(one_or_many).unwrap_or_default();
        let listen = listen.iter().filter_map(|item| text(item, "an address", report)).collect();
        let upstreams = fields.required("upstreams", "services by name", report);
        let routes = fields.list("routes", report).unwrap_or_default();
        Some(Self {
            listen,
            upstreams: upstreams.map(|node| read_upstreams(node, report)).unwrap_or_default(),
            routes: routes.iter().filter_map(|item| FileRoute::read(item, report)).collect(),
            timeouts: fields.get("timeouts").and_then(|node| FileTimeouts::read(node, report)),
            uploads: fields.get("uploads").and_then(|node| FileUploads::read(node, report)),
            request_headers: headers(&fields, "request_headers", report),
            response_headers: headers(&fields, "response_headers", report),
            requests: fields.get("requests").map(|node| FileRequestRules::read(node, report)),
            encoded_slashes: fields.text("encoded_slashes", report),
            api_key: fields.get("api_key").and_then(|node| FileApiKey::read(node, report)),
            jwt: fields.get("jwt").and_then(|node| FileJwt::read(node, report)),
            access_log: fields.get("access_log").and_then(|node| FileAccessLog::read(node, report)),
            at: node.at.clone(),
        })
    }
}

fn read_upstreams(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<FileUpstream> {
    let expected = "services by name, such as { api: http://10.0.0.1:3000 }";
    let entries = entries(node, expected, report).iter();
    entries.filter_map(|entry| FileUpstream::read(entry, report)).collect()
}

impl FileRoute {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["name", "match", "upstream", "request_headers", "response_headers"];

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a route", Self::FIELDS, report)?;
        fields.required("upstream", "the name of a service", report);
        Some(Self {
            name: fields.text("name", report),
            condition: fields.get("match").map(|node| conditions(node, report)).unwrap_or_default(),
            upstream: fields.text("upstream", report)?,
            request_headers: headers(&fields, "request_headers", report),
            response_headers: headers(&fields, "response_headers", report),
        })
    }
}
