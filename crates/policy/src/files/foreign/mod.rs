//! Files of other limiters: read as they are, or translated into our format.

pub(crate) mod envoy;
pub(crate) mod import;
pub(crate) mod rlaas;

use crate::files::yaml::{YamlNode, YamlValue};

/// The format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Tidegate,
    /// RLaaS: `rate-limiter: ...`, possibly among other settings of an application.
    Rlaas,
    /// envoyproxy/ratelimit: `domain: ...`.
    Envoy,
    /// limitador: a list of limits, each with a namespace.
    Limitador,
}

impl FileFormat {
    /// Recognises a format by the fields that no other format has. Anything else is read as our own
    /// format, so that messages name our fields.
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
