//! The parts of a policy that concern responses: responses to denied callers, and costs that only the
//! response determines.

use tidegate::Cost;

/// The response to denied callers, in place of the default response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeniedResponse {
    /// The status.
    pub status: u16,
    /// The body, and its media type.
    pub body: Option<(String, String)>,
    /// Headers in addition to `Retry-After` and `RateLimit`, valid to send.
    pub headers: Vec<(String, String)>,
}

/// A cost that the response determines. One unit is taken in advance, and corrected afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseCostSource {
    /// The number in a header of the response.
    Header {
        /// The header's name, in lower case.
        name: String,
        /// The cost of a response without it.
        default: Cost,
    },
    /// One for a response with one of these statuses; other responses cost nothing.
    Status(StatusSet),
}

/// A set of response statuses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Adds a status such as `401`, or a class such as `4xx`. Returns whether the text is valid.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        let range = match text.as_bytes() {
            [digit @ b'1'..=b'5', b'x', b'x'] => {
                let first = u16::from(digit - b'0') * 100;
                Some((first, first + 99))
            }
            [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'] => {
                text.parse().ok().map(|status| (status, status))
            }
            _ => None,
        };
        self.0.extend(range);
        range.is_some()
    }

    /// Whether a status is one of them.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_or_classes() {
        let mut statuses = StatusSet::default();
        assert!(statuses.push("401") && statuses.push("5xx"));
        assert!(!statuses.push("6xx") && !statuses.push("4x1") && !statuses.push("40"));
        assert!(statuses.contains(401) && statuses.contains(500) && statuses.contains(599));
        assert!(!statuses.contains(400) && !statuses.contains(600));
    }
}
