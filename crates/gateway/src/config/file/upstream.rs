//! A service behind the gateway, as it is written in the file.

use schemars::JsonSchema;

use tidegate_policy::section::{
    FileValue, OneOrMany, ProblemReport, SourceValue, YamlNode, YamlValue, entries, file_table,
    one_or_many, texts,
};

/// A service by its name.
#[derive(Clone, Debug)]
pub struct FileUpstream {
    pub name: SourceValue<String>,
    pub fields: FileUpstreamFields,
}

/// The schema of a service.
#[derive(JsonSchema)]
#[schemars(rename = "Upstream", untagged)]
#[allow(dead_code, clippy::large_enum_variant, reason = "describes a shape to editors")]
pub(super) enum UpstreamShape {
    /// An address, such as http://10.0.0.1:3000.
    One(String),
    /// Several addresses: each request goes to the one with the fewest requests in flight.
    Many(Vec<String>),
    /// Addresses, and options for them.
    Fields(FileUpstreamFields),
}

file_table! {
    /// The addresses of a service, and options for them.
    pub struct FileUpstreamFields("UpstreamFields", "a service") {
        /// Its addresses: http://, https:// or h2c:// (HTTP/2 without TLS), a host and a port.
        urls: Vec<SourceValue<String>> as OneOrMany<String>
            [wanted "addresses, such as http://10.0.0.1:3000"] = urls,
        /// How long the service may take.
        timeouts: Option<FileTimeouts>,
        /// How slowly clients may send the bodies of their requests.
        uploads: Option<FileUploads>,
        /// Checks periodically whether each address is healthy.
        health: Option<FileHealthCheck>,
        /// Whether the service gets the Host of the client's request. Defaults to true.
        preserve_host: Option<SourceValue<bool>>,
        /// The most requests in flight at a time. Defaults to 10,000; further requests get 503.
        max_requests: Option<SourceValue<String>> as u32,
        /// A file with the certificates that https:// addresses are verified against. Defaults to the
        /// system's.
        ca: Option<SourceValue<String>>,
    }
}

file_table! {
    /// How long a service may take.
    pub struct FileTimeouts("Timeouts", "timeouts") {
        /// To make a connection. Defaults to 2s.
        connect: Option<SourceValue<String>>,
        /// From the end of a request to the head of the response. Defaults to 60s.
        response: Option<SourceValue<String>>,
        /// The longest time without a byte in either direction. Defaults to 60s.
        idle: Option<SourceValue<String>>,
    }
}

file_table! {
    /// How slowly clients may send the bodies of their requests, until the response begins.
    pub struct FileUploads("Uploads", "uploads") {
        /// The least rate in bytes per second; 0 for no bound. Defaults to 240.
        least_rate: Option<SourceValue<String>> as u32,
        /// How long the gateway waits for a client in total; each least_rate bytes earn a second more.
        /// Defaults to 10s.
        grace: Option<SourceValue<String>>,
        /// The longest time that a whole body may take. No bound by default.
        longest: Option<SourceValue<String>>,
    }
}

file_table! {
    /// How to check whether an address is healthy.
    pub struct FileHealthCheck("Health", "health") {
        /// The path of the request: any status below 400 is healthy.
        path: SourceValue<String> [required "a path such as /healthz"],
        /// The time between checks. Defaults to 5s.
        every: Option<SourceValue<String>>,
        /// How long the response may take. Defaults to 1s.
        timeout: Option<SourceValue<String>>,
    }
}

/// All valid services by name.
pub(super) fn upstreams(
    node: &YamlNode,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<FileUpstream>> {
    let expected = "services by name, such as { api: http://10.0.0.1:3000 }";
    let upstreams = entries(node, expected, report).iter().filter_map(|entry| {
        let fields = match &entry.node.value {
            YamlValue::Map(_) => FileUpstreamFields::read(&entry.node, report)?,
            _ => FileUpstreamFields {
                urls: urls(&entry.node, report).unwrap_or_default(),
                ..FileUpstreamFields::default()
            },
        };
        Some(FileUpstream { name: entry.name.clone(), fields })
    });
    Some(upstreams.collect())
}

fn urls(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Vec<SourceValue<String>>> {
    if one_or_many(node).is_empty() {
        report.add(&node.at, "no address in the list: expected at least one");
    }
    texts("an address such as http://10.0.0.1:3000")(node, report)
}
