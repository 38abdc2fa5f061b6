//! The smaller parts of a policy: attributes of a key, costs, precision.

use schemars::JsonSchema;

use super::Scalar;
use crate::problem::Report;
use crate::yaml::{Fields, Node, Spot, Value, text, unexpected};

/// One attribute of a key.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum KeyPart {
    /// Its name.
    Name(Spot<String>),
    /// Its name and how it is read.
    Fields(KeyPartFields),
}

/// An attribute of a key, and how it is read.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct KeyPartFields {
    /// Its name.
    pub(crate) attribute: Spot<String>,
    /// How it is brought into one form. `ip` and `path` are read as such unless told otherwise.
    #[schemars(rename = "as", with = "Option<FormName>")]
    pub(crate) form: Option<Spot<String>>,
    /// Stands in for it where a request has none.
    pub(crate) default: Option<Spot<String>>,
    /// How many bits of an IPv6 address count; 64 unless said.
    #[schemars(with = "Option<u8>")]
    pub(crate) prefix: Option<Spot<String>>,
    /// The templates of `as: route`, such as /users/{id}.
    #[schemars(with = "Option<Vec<String>>")]
    pub(crate) routes: Vec<Spot<String>>,
}

/// A fixed cost, or where it comes from.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum CostFile {
    /// So many units.
    Fixed(#[schemars(with = "u64")] Spot<String>),
    /// As many as an attribute says.
    From(CostFields),
}

/// An attribute that holds a number.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct CostFields {
    /// Its name.
    pub(crate) attribute: Spot<String>,
    /// The cost of a request without it; 1 unless said.
    #[schemars(with = "Option<u64>")]
    pub(crate) default: Option<Spot<String>>,
}

/// exact, cached_deny, or { leased: { max_over: 5% } }.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "Precision", untagged)]
pub(crate) enum PrecisionFile {
    /// By name.
    Name(#[schemars(with = "PrecisionName")] String),
    /// A node takes some of the quota at a time.
    Leased {
        /// How far it may overshoot.
        #[schemars(with = "Leased")]
        leased: Spot<String>,
    },
}

macro_rules! describes {
    ($($item:item)*) => {
        $(#[derive(JsonSchema)] #[allow(dead_code, reason = "describes a shape to editors")] $item)*
    };
}

describes! {
    #[schemars(rename_all = "kebab-case")]
    enum FormName { Text, Lower, Ip, Path, Route }

    #[schemars(rename_all = "snake_case")]
    enum PrecisionName { Exact, CachedDeny }

    #[schemars(deny_unknown_fields)]
    struct Leased { max_over: Scalar }
}

impl KeyPart {
    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        if let Value::Text(name) = &node.value {
            return Some(Self::Name(Spot::new(node.at.clone(), name.clone())));
        }
        let fields = Fields::of(node, "an attribute, or", KeyPartFields::FIELDS, report)?;
        fields.required("attribute", "its name", report)?;
        let routes = fields.list("routes", report).unwrap_or_default();
        let routes = routes.iter().filter_map(|item| text(item, "a template", report)).collect();
        Some(Self::Fields(KeyPartFields {
            attribute: fields.text("attribute", report)?,
            form: fields.text("as", report),
            default: fields.text("default", report),
            prefix: fields.text("prefix", report),
            routes,
        }))
    }
}

impl KeyPartFields {
    pub(crate) const FIELDS: &'static [&'static str] =
        &["attribute", "as", "default", "prefix", "routes"];
}

impl CostFile {
    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Self> {
        if let Value::Text(units) = &node.value {
            return Some(Self::Fixed(Spot::new(node.at.clone(), units.clone())));
        }
        let fields = Fields::of(node, "a number, or", CostFields::FIELDS, report)?;
        fields.required("attribute", "its name", report)?;
        Some(Self::From(CostFields {
            attribute: fields.text("attribute", report)?,
            default: fields.text("default", report),
        }))
    }
}

impl CostFields {
    pub(crate) const FIELDS: &'static [&'static str] = &["attribute", "default"];
}

impl PrecisionFile {
    pub(super) fn read(node: &Node, report: &mut Report<'_>) -> Option<Spot<Self>> {
        let at = node.at.clone();
        if let Value::Text(name) = &node.value {
            return Some(Spot::new(at, Self::Name(name.clone())));
        }
        let expected = "exact, cached_deny, or";
        let fields = Fields::of(node, expected, &["leased"], report)?;
        let leased = fields.required("leased", "{ max_over: 5% }", report)?;
        let fields = Fields::of(leased, "leased", &["max_over"], report)?;
        let Some(max_over) = fields.get("max_over") else {
            unexpected(leased, "{ max_over: 5% }", report);
            return None;
        };
        let leased = text(max_over, "a share such as 5%", report)?;
        Some(Spot::new(at, Self::Leased { leased }))
    }
}
