//! The error of an invalid key template.

use std::fmt;

/// An invalid key template: the template, the position of the problem, and what was expected.
///
/// Its text is meant for the author of a configuration: it quotes the template and names the position.
///
/// ```
/// use tidegate_core::KeyTemplate;
///
/// let error = "limits:{user}".parse::<KeyTemplate>().unwrap_err();
/// assert_eq!(error.unknown(), Some("user"));
/// assert_eq!(error.position(), Some(8));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplateError {
    template: String,
    position: Option<usize>,
    problem: String,
    unknown: Option<String>,
}

impl KeyTemplateError {
    /// An error for a template that the caller itself refuses. `problem` says what was expected.
    pub fn refused(template: &str, problem: impl Into<String>) -> Self {
        Self {
            template: template.to_owned(),
            position: None,
            problem: problem.into(),
            unknown: None,
        }
    }

    /// Adds the position: `at` is a byte offset in the template.
    pub(super) fn at(self, at: usize) -> Self {
        let before = self.template.get(..at).unwrap_or_default().chars().count();
        Self { position: Some(before + 1), ..self }
    }

    pub(super) fn about(self, unknown: &str) -> Self {
        Self { unknown: Some(unknown.to_owned()), ..self }
    }

    /// The character of the template at which the problem begins, counted from one; `None` if the
    /// problem concerns the whole template.
    pub const fn position(&self) -> Option<usize> {
        self.position
    }

    /// What is wrong and what was expected, without the template.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The name of a placeholder that does not exist, if that is the problem.
    pub fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }
}

impl fmt::Display for KeyTemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key_format {:?}", self.template)?;
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl std::error::Error for KeyTemplateError {}
