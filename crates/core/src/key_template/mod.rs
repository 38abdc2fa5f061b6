//! Templates for the names of keys that a store shares with another limiter.

mod error;
mod limit_check;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use error::KeyTemplateError;

use crate::Span;

/// A template for the names of keys, so that Tidegate and another limiter find each other's counts.
///
/// | placeholder | becomes |
/// |---|---|
/// | `{entity}` | the caller's name, from [`ChargeNames`](crate::ChargeNames); required |
/// | `{limit}` | the limit's name, from [`ChargeNames`](crate::ChargeNames) |
/// | `{window_index}` | the window's number: its start divided by its length |
/// | `{window_start}` | when the window began, in seconds since the epoch |
/// | `{window_start_ms}` | the same in milliseconds |
///
/// A brace that belongs to the key is doubled, as in `format!`: `{{` and `}}`. A name in doubled
/// braces is a placeholder in a hash tag, so `{{entity}}` and `{{{entity}}}` both become `{alice}`.
///
/// A template can end with a space, a plus sign and a span: keys are kept that much longer than needed,
/// up to a day: `api:{entity}:{window_start} +5s`.
///
/// ```
/// use tidegate_core::{KeyTemplate, KeyPlaceholder};
///
/// let template: KeyTemplate = "api:{entity}:{limit}".parse()?;
/// assert!(template.has(KeyPlaceholder::Limit) && template.window().is_none());
///
/// let error = "api:{user}".parse::<KeyTemplate>().unwrap_err();
/// assert_eq!((error.position(), error.unknown()), (Some(5), Some("user")));
/// # Ok::<(), tidegate_core::KeyTemplateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate {
    text: String,
    parts: Vec<TemplatePart>,
    buffer: Option<Span>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text that is the same in every name.
    Text(String),
    /// A value that differs between names.
    Placeholder(KeyPlaceholder),
}

/// A placeholder, which a template has in braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlaceholder {
    /// The caller's name.
    Entity,
    /// The limit's name.
    Limit,
    /// The window.
    Window(WindowName),
}

/// How a template names windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowName {
    /// By number.
    Index,
    /// By the second in which they began.
    Start,
    /// By the millisecond.
    StartMillis,
}

impl KeyTemplate {
    /// The longest template, in bytes.
    pub const MAX_LENGTH: usize = 256;
    /// The longest buffer: see [`buffer`](Self::buffer).
    pub const MAX_BUFFER: Span = Span::from_days(1);

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its parts, in order. Two texts are never adjacent.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// How much longer than needed keys are kept, if the template has such a buffer.
    pub const fn buffer(&self) -> Option<Span> {
        self.buffer
    }

    /// Whether the template has this placeholder.
    pub fn has(&self, placeholder: KeyPlaceholder) -> bool {
        self.parts.contains(&TemplatePart::Placeholder(placeholder))
    }

    /// How the template names windows, if it does.
    pub fn window(&self) -> Option<WindowName> {
        self.parts.iter().find_map(|part| match part {
            TemplatePart::Placeholder(KeyPlaceholder::Window(window)) => Some(*window),
            _ => None,
        })
    }
}

impl KeyPlaceholder {
    /// All placeholders.
    pub const ALL: &'static [Self] = &[
        Self::Entity,
        Self::Limit,
        Self::Window(WindowName::Index),
        Self::Window(WindowName::Start),
        Self::Window(WindowName::StartMillis),
    ];

    /// The name in a template.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entity => "entity",
            Self::Limit => "limit",
            Self::Window(WindowName::Index) => "window_index",
            Self::Window(WindowName::Start) => "window_start",
            Self::Window(WindowName::StartMillis) => "window_start_ms",
        }
    }
}

impl WindowName {
    /// The divisor that turns the start of a window of this length into the number in a name.
    pub const fn unit(self, window: Span) -> Span {
        match self {
            Self::Index => window,
            Self::Start => Span::from_secs(1),
            Self::StartMillis => Span::from_millis(1),
        }
    }
}

impl FromStr for KeyTemplate {
    type Err = KeyTemplateError;

    fn from_str(text: &str) -> Result<Self, KeyTemplateError> {
        let (parts, buffer) = parse::parse(text)?;
        Ok(Self { text: text.to_owned(), parts, buffer })
    }
}

/// As it was written.
impl fmt::Display for KeyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The placeholder as in a template, with its braces.
impl fmt::Display for KeyPlaceholder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", self.name())
    }
}
