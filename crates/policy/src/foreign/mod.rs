//! Other limiters' files: read as they are, or translated into ours.

pub(crate) mod envoy;
pub(crate) mod import;
pub(crate) mod rlaas;

use crate::yaml::{Node, Value};

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Tidegate,
    /// `rate-limiter: ...`, also among the other settings of an application.
    Rlaas,
    /// envoyproxy/ratelimit: `domain: ...`.
    Envoy,
    /// A list of limits, each with a namespace.
    Limitador,
}

impl Format {
    /// Recognised by what no other format has. Anything unrecognised is treated as ours, and the
    /// messages will say so.
    pub(crate) fn of(root: &Node) -> Self {
        match &root.value {
            Value::Map(_) if root.get("policies").is_some() => Self::Tidegate,
            Value::Map(_) if root.get("rate-limiter").is_some() => Self::Rlaas,
            Value::Map(_) if root.get("domain").is_some() => Self::Envoy,
            Value::Map(_) if root.get("descriptors").is_some() => Self::Envoy,
            Value::List(items) if items.iter().any(|item| item.get("namespace").is_some()) => {
                Self::Limitador
            }
            _ => Self::Tidegate,
        }
    }
}
