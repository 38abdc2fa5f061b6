//! A service behind the gateway, as it is written in the file.

use schemars::JsonSchema;

use crate::file::OneOrMany;
use crate::problem::ProblemReport;
use crate::yaml::{SourceValue, YamlEntry, YamlFields, YamlNode, YamlValue, one_or_many, text};

/// A service by its name.
#[derive(Clone, Debug)]
pub(crate) struct FileUpstream {
    pub(crate) name: SourceValue<String>,
    pub(crate) fields: FileUpstreamFields,
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

/// The addresses of a service, and options for them.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[schemars(rename = "UpstreamFields")]
pub(crate) struct FileUpstreamFields {
    /// Its addresses: http://, https:// or h2c:// (HTTP/2 without TLS), a host and a port.
    #[schemars(with = "OneOrMany<String>")]
    pub(crate) urls: Vec<SourceValue<String>>,
    /// How long the service may take.
    pub(crate) timeouts: Option<FileTimeouts>,
    /// How slowly clients may send the bodies of their requests.
    pub(crate) uploads: Option<FileUploads>,
    /// Checks periodically whether each address is healthy.
    pub(crate) health: Option<FileHealthCheck>,
    /// Whether the service gets the Host of the client's request. Defaults to true.
    pub(crate) preserve_host: Option<SourceValue<bool>>,
    /// The most requests in flight at a time. Defaults to 10,000; further requests get 503.
    #[schemars(with = "Option<u32>")]
    pub(crate) max_requests: Option<SourceValue<String>>,
    /// A file with the certificates that https:// addresses are verified against. Defaults to the
    /// system's.
    pub(crate) ca: Option<SourceValue<String>>,
}

/// How long a service may take.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Timeouts")]
pub(crate) struct FileTimeouts {
    /// To make a connection. Defaults to 2s.
    pub(crate) connect: Option<SourceValue<String>>,
    /// From the end of a request to the head of the response. Defaults to 60s.
    pub(crate) response: Option<SourceValue<String>>,
    /// The longest time without a byte in either direction. Defaults to 60s.
    pub(crate) idle: Option<SourceValue<String>>,
}

/// How slowly clients may send the bodies of their requests, until the response begins.
#[derive(Clone, Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Uploads")]
pub(crate) struct FileUploads {
    /// The least rate in bytes per second; 0 for no bound. Defaults to 240.
    #[schemars(with = "Option<u32>")]
    pub(crate) least_rate: Option<SourceValue<String>>,
    /// How long the gateway waits for a client in total; each least_rate bytes earn a second more.
    /// Defaults to 10s.
    pub(crate) grace: Option<SourceValue<String>>,
    /// The longest time that a whole body may take. No bound by default.
    pub(crate) longest: Option<SourceValue<String>>,
}

/// How to check whether an address is healthy.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Health")]
pub(crate) struct FileHealthCheck {
    /// The path of the request: any status below 400 is healthy.
    pub(crate) path: SourceValue<String>,
    /// The time between checks. Defaults to 5s.
    pub(crate) every: Option<SourceValue<String>>,
    /// How long the response may take. Defaults to 1s.
    pub(crate) timeout: Option<SourceValue<String>>,
}

impl FileUpstream {
    pub(super) fn read(entry: &YamlEntry, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = match &entry.node.value {
            YamlValue::Map(_) => FileUpstreamFields::read(&entry.node, report)?,
            _ => FileUpstreamFields {
                urls: urls(&entry.node, report),
                ..FileUpstreamFields::default()
            },
        };
        Some(Self { name: entry.name.clone(), fields })
    }
}

impl FileUpstreamFields {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["urls", "timeouts", "uploads", "health", "preserve_host", "max_requests", "ca"];

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a service", Self::FIELDS, report)?;
        let addresses = fields.required("urls", "addresses, such as http://10.0.0.1:3000", report);
        Some(Self {
            urls: addresses.map(|node| urls(node, report)).unwrap_or_default(),
            timeouts: fields.get("timeouts").and_then(|node| FileTimeouts::read(node, report)),
            uploads: fields.get("uploads").and_then(|node| FileUploads::read(node, report)),
            health: fields.get("health").and_then(|node| FileHealthCheck::read(node, report)),
            preserve_host: fields.truth("preserve_host", report),
            max_requests: fields.text("max_requests", report),
            ca: fields.text("ca", report),
        })
    }
}

fn urls(node: &YamlNode, report: &mut ProblemReport<'_>) -> Vec<SourceValue<String>> {
    let items = one_or_many(node);
    if items.is_empty() {
        report.add(&node.at, "no address in the list: expected at least one");
    }
    let expected = "an address such as http://10.0.0.1:3000";
    items.iter().filter_map(|item| text(item, expected, report)).collect()
}

impl FileTimeouts {
    pub(crate) const FIELDS: &'static [&'static str] = &["connect", "response", "idle"];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "timeouts", Self::FIELDS, report)?;
        Some(Self {
            connect: fields.text("connect", report),
            response: fields.text("response", report),
            idle: fields.text("idle", report),
        })
    }
}

impl FileUploads {
    pub(crate) const FIELDS: &'static [&'static str] = &["least_rate", "grace", "longest"];

    pub(super) fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "uploads", Self::FIELDS, report)?;
        Some(Self {
            least_rate: fields.text("least_rate", report),
            grace: fields.text("grace", report),
            longest: fields.text("longest", report),
        })
    }
}

impl FileHealthCheck {
    pub(crate) const FIELDS: &'static [&'static str] = &["path", "every", "timeout"];

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "health", Self::FIELDS, report)?;
        fields.required("path", "a path such as /healthz", report);
        Some(Self {
            path: fields.text("path", report)?,
            every: fields.text("every", report),
            timeout: fields.text("timeout", report),
        })
    }
}
