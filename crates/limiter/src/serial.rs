//! The feature `serde`: serializes decisions and deserializes limits.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use tidegate_core::{Quota, Span};

use crate::{Decision, DecisionReason, DecisionSource, LimitSpec};

/// The format of the server's answers; `limits` holds the verdicts in the order of the rules.
///
/// ```
/// use tidegate::Limiter;
///
/// let limiter = Limiter::builder().limit("10/minute burst 10").build()?;
/// let json = serde_json::to_value(limiter.check_now("alice"))?;
/// assert_eq!(json["allowed"], true);
/// assert_eq!((&json["limit"], &json["remaining"]), (&10.into(), &9.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Decision", 8)?;
        members.serialize_field("allowed", &self.is_allowed())?;
        members.serialize_field("reason", &self.reason())?;
        members.serialize_field("limit", &self.limit())?;
        members.serialize_field("remaining", &self.remaining())?;
        members.serialize_field("retry_after_ms", &self.retry_span().map(Span::as_millis_ceil))?;
        members.serialize_field("reset_after_ms", &self.reset_span().map(Span::as_millis_ceil))?;
        members.serialize_field("source", &self.source())?;
        let limits: Vec<_> = self.verdicts().iter().map(SerializedVerdict).collect();
        members.serialize_field("limits", &limits)?;
        members.end()
    }
}

struct SerializedVerdict<'a>(&'a crate::Verdict);

impl Serialize for SerializedVerdict<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let verdict = self.0;
        let mut members = serializer.serialize_struct("Verdict", 5)?;
        members.serialize_field("limit", &verdict.limit)?;
        members.serialize_field("allowed", &verdict.allowed)?;
        members.serialize_field("remaining", &verdict.remaining)?;
        let retry_after = verdict.retry_after.map(Span::as_millis_ceil);
        members.serialize_field("retry_after_ms", &retry_after)?;
        members.serialize_field("reset_after_ms", &verdict.reset_after.as_millis_ceil())?;
        members.end()
    }
}

impl Serialize for DecisionReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Serialize for DecisionSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A quota as text, for limits in a program's own configuration. Invalid text is a deserialization
/// error.
///
/// ```
/// use tidegate::{LimitSpec, Limiter};
///
/// let limit: LimitSpec = serde_json::from_str(r#""100/minute burst 20""#)?;
/// let limiter = Limiter::builder().limit(limit).build()?;
/// let error = serde_json::from_str::<LimitSpec>(r#""100/minit""#).unwrap_err();
/// assert!(error.to_string().contains(r#"unknown unit "minit""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'de> Deserialize<'de> for LimitSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse::<Quota>().map_err(D::Error::custom)?;
        Ok(Self::Text(text))
    }
}
