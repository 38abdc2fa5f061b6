//! Why a template cannot be used.

use std::fmt;

/// A template that cannot be used, where in it the trouble is, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFormatError {
    template: String,
    position: Option<usize>,
    problem: String,
}

impl KeyFormatError {
    /// `at` is a place in the template, in bytes.
    pub(super) fn new(template: &str, at: Option<usize>, problem: String) -> Self {
        let characters = |at: usize| template.get(..at).map_or(0, |before| before.chars().count());
        Self { template: template.to_owned(), position: at.map(|at| characters(at) + 1), problem }
    }

    /// The character of the template at which the trouble begins, counted from one; `None` when it
    /// is about the whole.
    pub const fn position(&self) -> Option<usize> {
        self.position
    }
}

impl fmt::Display for KeyFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key_format {:?}", self.template)?;
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for KeyFormatError {}
