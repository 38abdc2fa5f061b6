//! Explains which policies apply to a request and why, for people who debug a file.

use std::fmt;

use tidegate_core::{Limit, Rule};

use crate::files::matcher::ConditionMismatch;
use crate::files::planned_policy::LimitOrigin;
use crate::{Attributes, Plan, PlannedPolicy, PolicyMode};

/// How one policy treats a request.
#[derive(Debug)]
pub struct PolicyExplanation<'p> {
    /// The policy.
    pub policy: &'p PlannedPolicy,
    /// Whether the policy applies, and with which limits.
    pub outcome: PolicyMatch<'p>,
}

/// Whether a policy applies to a request, or why not.
#[derive(Debug)]
#[non_exhaustive]
pub enum PolicyMatch<'p> {
    /// The policy is switched off.
    Off,
    /// A condition needs an attribute that the request does not have.
    Missing(&'p str),
    /// An attribute does not match.
    Differs(&'p str),
    /// Its key needs an attribute that the request does not have.
    NoKey(&'p str),
    /// The policy applies.
    Applies {
        /// The attributes of its key, each with its value as it is counted: a route rather than a
        /// path, the network of an IPv6 address. Values are in quotes, our own words are not.
        key: Vec<(&'p str, String)>,
        /// Where the limits come from: `limits`, `tier 1` or `override`.
        origin: String,
        /// The limits; none if the request is unlimited.
        rules: &'p [Rule],
    },
}

impl Plan {
    /// How every policy treats a request.
    pub fn explain<A: Attributes + ?Sized>(&self, request: &A) -> Vec<PolicyExplanation<'_>> {
        let request = self.attributes.resolve(request);
        let explained = self.policies().iter().map(|policy| {
            let outcome = match (policy.mode(), policy.mismatch(&request)) {
                (PolicyMode::Off, _) => PolicyMatch::Off,
                (_, Some(ConditionMismatch::Missing(number))) => {
                    PolicyMatch::Missing(self.attributes.name(number))
                }
                (_, Some(ConditionMismatch::Differs(number))) => {
                    PolicyMatch::Differs(self.attributes.name(number))
                }
                (_, None) => match policy.subject(&request, &self.hasher) {
                    None => PolicyMatch::NoKey(policy.missing_part(&request).unwrap_or_default()),
                    Some(subject) => PolicyMatch::Applies {
                        key: policy.readable_key(&request),
                        origin: origin(policy.origin(subject, &request)),
                        rules: policy.rules_for(subject, &request),
                    },
                },
            };
            PolicyExplanation { policy, outcome }
        });
        explained.collect()
    }
}

fn origin(origin: LimitOrigin) -> String {
    match origin {
        LimitOrigin::Override => "an override".to_owned(),
        LimitOrigin::Tier(index) => format!("tier {}", index + 1),
        LimitOrigin::Policy => "`limits`".to_owned(),
    }
}

/// A limit, described for people: its quota, its algorithm and the most it admits.
///
/// ```
/// use tidegate::config::LimitDescription;
///
/// let limit = "100/minute burst 20".parse()?;
/// assert_eq!(
///     LimitDescription(&limit).to_string(),
///     "100/minute burst 20, token-bucket: at most 120 in any minute"
/// );
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct LimitDescription<'a>(
    /// The limit.
    pub &'a Limit,
);

impl fmt::Display for LimitDescription<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, quota) = (self.0, self.0.quota());
        let units = quota.limit();
        if units == 0 {
            return write!(f, "0/{}: denies everything", quota.window().as_period());
        }
        if limit.calendar().is_some() {
            return write!(f, "{} (UTC): at most {units} in each", limit.rate());
        }
        let (kind, window) = (limit.kind(), quota.window().as_period());
        let most = limit.most_in_a_window();
        write!(f, "{quota}, {kind}: at most {most} in any {window}")?;
        limit.remark().map_or(Ok(()), |remark| write!(f, "; {remark}"))
    }
}
