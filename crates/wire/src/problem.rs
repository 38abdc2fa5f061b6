//! Error bodies: `application/problem+json`, as defined by RFC 9457.

use schemars::JsonSchema;
use serde::Serialize;

use crate::CheckResponse;

/// A problem document: the standard members, and further ones of its kind.
///
/// ```
/// use tidegate_wire::{ProblemDetails, RefusalMembers};
///
/// let problem = ProblemDetails {
///     kind: ProblemDetails::BLANK,
///     title: "Bad Request",
///     status: 400,
///     detail: "`cost` is -1: expected a whole number",
///     members: RefusalMembers { member: Some("cost"), ..RefusalMembers::default() },
/// };
/// assert_eq!(
///     serde_json::to_string(&problem)?,
///     r#"{"type":"about:blank","title":"Bad Request","status":400,"#.to_owned()
///         + r#""detail":"`cost` is -1: expected a whole number","member":"cost"}"#,
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{M}Problem", description = "What went wrong, in the format of RFC 9457.")]
pub struct ProblemDetails<'a, M> {
    /// A URI that identifies the kind of problem.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// The kind of problem in words.
    pub title: &'a str,
    /// The HTTP status.
    pub status: u16,
    /// What happened this time, in words.
    pub detail: &'a str,
    /// Members beyond the standard.
    #[serde(flatten)]
    pub members: M,
}

impl ProblemDetails<'_, ()> {
    /// The type of a problem that its status fully describes.
    pub const BLANK: &'static str = "about:blank";
    /// The type of a denial.
    pub const QUOTA_EXCEEDED: &'static str =
        "https://iana.org/assignments/http-problem-types#quota-exceeded";
}

/// The members of a denial: the whole decision, and the policies that were exceeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuotaExceeded<'a> {
    /// The policies whose limits were exceeded.
    #[serde(rename = "violated-policies")]
    pub violated_policies: Vec<&'a str>,
    /// The same members as in the response to an allowed request.
    #[serde(flatten)]
    pub answer: CheckResponse<'a>,
}

/// The members of a response to an invalid request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Refused")]
pub struct RefusalMembers<'a> {
    /// The member of the body at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<&'a str>,
    /// The policies that exist, if the requested one does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Vec<&'a str>>,
}
