//! Other limiters' files: read as they are, or translated into ours.

pub(crate) mod envoy;
pub(crate) mod import;
pub(crate) mod rlaas;

use crate::yaml::{YamlNode, YamlValue};

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Tidegate,
    /// `rate-limiter: ...`, also among the other settings of an application.
    Rlaas,
    /// envoyproxy/ratelimit: `domain: ...`.
    Envoy,
    /// A list of limits, each with a namespace.
    Limitador,
}

impl FileFormat {
    /// Recognised by what no other format has. Anything unrecognised is treated as ours, and the
    /// messages will say so.
    pub(crate) fn of(root: &YamlNode) -> Self {
        match &root.value {
            YamlValue::Map(_) if root.get("policies").is_some() => Self::Tidegate,
            YamlValue::Map(_) if root.get("rate-limiter").is_some() => Self::Rlaas,
            YamlValue::Map(_) if root.get("domain").is_some() => Self::Envoy,
            YamlValue::Map(_) if root.get("descriptors").is_some() => Self::Envoy,
            YamlValue::List(items) if items.iter().any(|item| item.get("namespace").is_some()) => {
                Self::Limitador
            }
            _ => Self::Tidegate,
        }
    }
}
