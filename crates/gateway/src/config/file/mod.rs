//! A gateway as it is written in the file.

mod options;
mod policy;
mod upstream;

use std::collections::BTreeMap;

use tidegate_policy::section::{
    ConditionsShape, FileCondition, FileRequestRules, OneOrMany, RefuseOrKeep, SourceValue,
    conditions, file_table, texts,
};

pub(super) use self::options::{
    FileAccessLog, FileApiKey, FileHeader, FileHeaderRule, FileHeaderRules, FileJwt, LogKeys,
};
pub(super) use self::policy::{FileDeniedResponse, FileGatewayPolicy, FileResponseCost, OnDenied};
pub(super) use self::upstream::{FileHealthCheck, FileTimeouts, FileUploads, FileUpstream};

file_table! {
    /// A gateway, which forwards the requests that policies allow to services.
    pub struct FileGateway("Gateway", "a gateway") {
        /// Where to listen: host:port, one or several. Defaults to 127.0.0.1:8000.
        listen: Vec<SourceValue<String>> as OneOrMany<String> = texts("an address"),
        /// The services, by name: an address such as http://10.0.0.1:3000, a list of them, or fields.
        upstreams: Vec<FileUpstream> as BTreeMap<String, upstream::UpstreamShape>
            [wanted "services by name"] = upstream::upstreams,
        /// Which requests go to which service: the first match wins. Without routes, all requests go to
        /// the only service.
        routes: Vec<FileRoute>,
        /// How long services may take, by default.
        timeouts: Option<FileTimeouts>,
        /// How slowly clients may send the bodies of their requests, for all services.
        uploads: Option<FileUploads>,
        /// Changes to the headers of every request.
        request_headers: Option<FileHeaderRules>,
        /// Changes to the headers of every response.
        response_headers: Option<FileHeaderRules>,
        /// Which parts of requests are refused or removed because services are known to read them in two
        /// ways.
        requests: Option<FileRequestRules>,
        /// The same as encoded_slashes in requests.
        encoded_slashes: Option<SourceValue<RefuseOrKeep>>,
        /// Where the attribute `api_key` comes from. Defaults to the header x-api-key.
        api_key: Option<FileApiKey> = options::api_key,
        /// How tokens are verified; their claims are the attributes `jwt:...`.
        jwt: Option<FileJwt>,
        /// Where requests are logged.
        access_log: Option<FileAccessLog>,
    }
}

file_table! {
    /// Requests, and where they go.
    pub struct FileRoute("Route", "a route") {
        /// Its name in logs, and the attribute `route`. Defaults to its service's name.
        name: Option<SourceValue<String>>,
        /// The requests it applies to, by host, path, method and header:name, as in policies.
        /// All requests if absent.
        condition as "match": Vec<FileCondition> as ConditionsShape = conditions,
        /// The service, by name.
        upstream: SourceValue<String> [required "the name of a service"],
        /// Changes to the headers of its requests, after those that apply to all requests.
        request_headers: Option<FileHeaderRules>,
        /// Changes to the headers of its responses.
        response_headers: Option<FileHeaderRules>,
    }
}
