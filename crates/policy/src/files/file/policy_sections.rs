//! The smaller parts of a policy as they are written: key attributes, costs, responses, precision.

use std::iter;

use schemars::JsonSchema;

use super::{FileValue, OneOf, YamlScalar, list};
use crate::files::problem::ProblemReport;
use crate::files::yaml::{SourceValue, YamlEntry, YamlFields, YamlNode, YamlValue, entries, text};
use crate::section::{SectionPlace, program_of};
use crate::{file_choice, file_table};

/// One attribute of a key.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "KeyPart")]
pub(crate) enum FileKeyPart {
    /// Its name.
    Name(SourceValue<String>),
    /// Its name and how it is read.
    Fields(FileKeyFields),
}

file_table! {
    /// An attribute of a key, and how it is read.
    pub(crate) struct FileKeyFields("KeyPartFields", "an attribute, or") {
        /// Its name.
        attribute: SourceValue<String> [required "its name"],
        /// How it is normalised. By default `ip` and `path` are read as such, anything else as text.
        form as "as": Option<SourceValue<String>> as OneOf<KeyFormName>,
        /// The value to use for a request that has none.
        default: Option<SourceValue<String>>,
        /// How many bits of an IPv6 address count. Defaults to 64.
        prefix: Option<SourceValue<String>> as u8,
        /// The templates of `as: route`, such as /users/{id}.
        routes: Vec<SourceValue<String>> = |node, report| {
            list(node, |item, report: &mut _| text(item, "a template", report), report)
        },
    }
}

file_choice! {
    /// How an attribute of a key is normalised.
    pub(crate) enum KeyFormName("form", "FormName", "") {
        Text = "text",
        Lower = "lower",
        Ip = "ip",
        Path = "path",
        Route = "route",
    }
}

/// A fixed cost, or where it comes from.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
#[schemars(rename = "CostFile")]
pub(crate) enum FileCost {
    /// A number of units.
    Fixed(#[schemars(with = "u64")] SourceValue<String>),
    /// The number that an attribute or the response has.
    From(FileCostFields),
}

file_table! {
    /// Where a cost comes from: an attribute of the request, or the response that a gateway sees.
    pub(crate) struct FileCostFields("CostFields", "a number, or", extended at Cost) {
        /// An attribute that holds a number.
        attribute: Option<SourceValue<String>>,
        /// The cost of a request without the attribute or header. Defaults to 1.
        default: Option<SourceValue<String>> as u64,
        /// The least cost of a request, whatever the attribute says. Defaults to 1 for query:, header: and
        /// cookie:, which callers choose themselves, otherwise to 0.
        min: Option<SourceValue<String>> as u64,
    }
}

/// How exact decisions are: exact, cached_deny, or { leased: { max_over: 5% } }.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "Precision", untagged)]
pub(crate) enum FilePrecision {
    /// By name.
    Name(#[schemars(with = "OneOf<PrecisionName>")] String),
    /// Each node leases a part of the quota at a time.
    Leased {
        /// How far all nodes together may exceed the limit.
        #[schemars(with = "FileLease")]
        leased: SourceValue<String>,
    },
}

file_table! {
    struct FileLease("Leased", "leased") {
        max_over: SourceValue<String> as YamlScalar [required "a share such as 5%"]
            = |node, report| text(node, "a share such as 5%", report),
    }
}

file_choice! {
    /// The precisions that need no bound.
    enum PrecisionName("precision", "PrecisionName", "") {
        Exact = "exact",
        CachedDeny = "cached_deny",
    }
}

impl FileValue for FileKeyPart {
    type Shape = Self;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        match &node.value {
            YamlValue::Text(_) => text(node, "text", report).map(Self::Name),
            _ => FileKeyFields::read(node, report).map(Self::Fields),
        }
    }
}

impl FileValue for FileCost {
    type Shape = Self;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        if let YamlValue::Text(_) = &node.value {
            return text(node, "text", report).map(Self::Fixed);
        }
        let fields = FileCostFields::read(node, report)?;
        let of_sections = SectionPlace::Cost.fields(report.source().sections());
        let sources: Vec<_> = iter::once("attribute").chain(of_sections).collect();
        // A source that another program reads has been reported.
        let is_elsewhere = |entry: &YamlEntry| {
            program_of(&entry.name.value, SectionPlace::Cost).is_some()
                && !sources.contains(&entry.name.value.as_str())
        };
        if entries(node, "", report).iter().any(is_elsewhere) {
            return None;
        }
        if sources.iter().filter(|name| node.has(name)).count() != 1 {
            let expected = sources.join(", ");
            report.add(&node.at, format!("expected exactly one source of the cost: {expected}"));
            return None;
        }
        Some(Self::From(fields))
    }
}

impl FileValue for SourceValue<FilePrecision> {
    type Shape = FilePrecision;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let precision = match &node.value {
            YamlValue::Text(name) => FilePrecision::Name(name.clone()),
            _ => {
                let fields = YamlFields::of(node, "exact, cached_deny, or", &["leased"], report)?;
                let leased = fields.required("leased", "{ max_over: 5% }", report)?;
                let leased = FileLease::read(leased, report)?.max_over;
                FilePrecision::Leased { leased }
            }
        };
        Some(Self::new(node.at.clone(), precision))
    }
}
