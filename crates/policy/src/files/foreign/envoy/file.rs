//! An envoyproxy/ratelimit file as it is written.

use tidegate_core::Span;

use crate::files::problem::{ProblemReport, brief};
use crate::files::yaml::{ByteRange, SourceValue, YamlFields, YamlNode, one_or_many, unexpected};

/// The file: a domain and its descriptors.
pub(crate) struct EnvoyFile {
    pub(crate) domain: SourceValue<String>,
    pub(crate) descriptors: Vec<EnvoyFileDescriptor>,
}

/// A descriptor: a key, optionally a value and a limit, and nested descriptors.
pub(crate) struct EnvoyFileDescriptor {
    pub(crate) at: ByteRange,
    pub(crate) key: SourceValue<String>,
    pub(crate) value: Option<SourceValue<String>>,
    pub(crate) limit: Option<EnvoyFileLimit>,
    pub(crate) is_shadow: bool,
    pub(crate) shares_threshold: bool,
    pub(crate) descriptors: Vec<Self>,
}

/// The `rate_limit` of a descriptor.
pub(crate) struct EnvoyFileLimit {
    pub(crate) at: ByteRange,
    pub(crate) name: Option<SourceValue<String>>,
    pub(crate) replaces: Vec<SourceValue<String>>,
    /// `None` when unlimited.
    pub(crate) rate: Option<(u64, EnvoyLimitUnit)>,
}

/// A unit of time in which a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EnvoyLimitUnit {
    pub(crate) name: &'static str,
    pub(crate) seconds: u64,
}

impl EnvoyLimitUnit {
    /// As the reference server counts them: a month has thirty days, a year 365.
    pub(crate) const ALL: &'static [Self] = &[
        Self { name: "second", seconds: 1 },
        Self { name: "minute", seconds: 60 },
        Self { name: "hour", seconds: 3_600 },
        Self { name: "day", seconds: DAY },
        Self { name: "week", seconds: 7 * DAY },
        Self { name: "month", seconds: 30 * DAY },
        Self { name: "year", seconds: 365 * DAY },
    ];

    pub(crate) const fn span(self) -> Span {
        Span::from_secs(self.seconds)
    }

    fn read(name: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Self> {
        let found = Self::ALL.iter().find(|unit| unit.name.eq_ignore_ascii_case(&name.value));
        if found.is_none() {
            let names: Vec<_> = Self::ALL.iter().map(|unit| unit.name).collect();
            report.add_unknown(&name.at, "unit", &name.value, &names);
        }
        found.copied()
    }
}

impl EnvoyFile {
    pub(crate) fn read(root: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(root, "a domain", &["domain", "descriptors"], report)?;
        fields.required("domain", "its name", report);
        let nested = fields.list("descriptors", report).unwrap_or_default();
        let domain = fields.text("domain", report);
        let descriptors = read_all(nested, report);
        let domain = domain?;
        if domain.value.is_empty() {
            report.add(&domain.at, "an empty domain: expected a name");
        }
        Some(Self { domain, descriptors })
    }
}

fn read_all(nodes: &[YamlNode], report: &mut ProblemReport<'_>) -> Vec<EnvoyFileDescriptor> {
    nodes.iter().filter_map(|node| EnvoyFileDescriptor::read(node, report)).collect()
}

impl EnvoyFileDescriptor {
    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let fields = YamlFields::of(node, "a descriptor", FIELDS, report)?;
        fields.required("key", "the entry's key", report);
        let truth = |name: &str, report: &mut ProblemReport<'_>| {
            fields.truth(name, report).is_some_and(|flag| flag.value)
        };
        // Settings for metrics that we do not have: only the type is checked.
        let _ = (truth("detailed_metric", report), truth("value_to_metric", report));
        if truth("quota_mode", report) {
            let at = fields.get("quota_mode").map_or(&node.at, |node| &node.at);
            report.add(at, "quota_mode is not supported: expected false");
        }
        let (is_shadow, shares_threshold) =
            (truth("shadow_mode", report), truth("share_threshold", report));
        let value = fields.text("value", report).filter(|value| !value.value.is_empty());
        let is_wildcard = value.as_ref().is_some_and(|value| value.value.ends_with('*'));
        if shares_threshold && !is_wildcard {
            report.add(&node.at, "share_threshold needs a value that ends with *");
        }
        let nested = fields.list("descriptors", report).unwrap_or_default();
        let descriptors = read_all(nested, report);
        let limit = fields.get("rate_limit").and_then(|node| EnvoyFileLimit::read(node, report));
        let key = fields.text("key", report)?;
        if key.value.is_empty() {
            report.add(&key.at, "an empty key: expected a name");
        }
        let at = node.at.clone();
        Some(Self { at, key, value, limit, is_shadow, shares_threshold, descriptors })
    }
}

impl EnvoyFileLimit {
    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let known = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
        let fields = YamlFields::of(node, "rate_limit", &known, report)?;
        let is_unlimited = fields.truth("unlimited", report).is_some_and(|flag| flag.value);
        let has_rate = fields.get("unit").or(fields.get("requests_per_unit"));
        let rate = match (is_unlimited, has_rate) {
            (true, Some(node)) => {
                report.add(&node.at, "an unlimited limit with a rate: expected one or the other");
                return None;
            }
            (true, None) => None,
            (false, _) => Some(rate(&fields, report)?),
        };
        let name = fields.text("name", report);
        let replaces = fields.get("replaces").map(one_or_many).unwrap_or_default();
        let replaces: Vec<_> = replaces.iter().filter_map(|node| replaced(node, report)).collect();
        if let Some(name) = &name
            && let Some(itself) = replaces.iter().find(|other| other.value == name.value)
        {
            report.add(&itself.at, format!("{:?} replaces itself", brief(&name.value)));
        }
        Some(Self { at: node.at.clone(), name, replaces, rate })
    }
}

fn rate(fields: &YamlFields<'_>, report: &mut ProblemReport<'_>) -> Option<(u64, EnvoyLimitUnit)> {
    let has_unit =
        fields.required("unit", "second, minute, hour, day, week, month or year", report).is_some();
    let unit = has_unit.then(|| fields.text("unit", report)).flatten();
    let unit = unit.and_then(|unit| EnvoyLimitUnit::read(&unit, report));
    // The reference server reads an absent number as zero, which denies everything.
    let requests = match fields.text("requests_per_unit", report) {
        None => 0,
        Some(text) => {
            let number = text.value.parse::<u32>();
            if number.is_err() {
                let value = brief(&text.value);
                report.add(&text.at, format!("{value:?}: expected a number of 0 to {}", u32::MAX));
            }
            number.ok()?.into()
        }
    };
    Some((requests, unit?))
}

fn replaced(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<SourceValue<String>> {
    let expected = "{ name: ... }";
    let Some(name) = node.get("name") else {
        unexpected(node, expected, report);
        return None;
    };
    crate::files::yaml::text(name, "a name", report)
}

const DAY: u64 = 86_400;

const FIELDS: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
];
