//! Writes translated policies as YAML that people can read and maintain.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::Policy;

/// Writes the policies of a translated file.
pub(super) struct ImportWriter {
    text: String,
    names: HashSet<String>,
}

/// The parts of one policy, as text.
#[derive(Default)]
pub(super) struct PolicyText {
    pub(super) comments: Vec<String>,
    pub(super) name: String,
    pub(super) conditions: Vec<(String, Vec<String>)>,
    pub(super) key: Vec<String>,
    pub(super) limits: Vec<String>,
    pub(super) algorithm: Option<String>,
    pub(super) mode: Option<&'static str>,
    pub(super) counts_denied: bool,
    pub(super) key_format: Option<String>,
}

impl PolicyText {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

impl ImportWriter {
    pub(super) fn new(origin: &str) -> Self {
        let text = format!("# Imported from {origin}.\npolicies:\n");
        Self { text, names: HashSet::new() }
    }

    pub(super) fn with_store(origin: &str, store: &str) -> Self {
        let store = scalar(store);
        let text = format!("# Imported from {origin}.\nstore: {store}\npolicies:\n");
        Self { text, names: HashSet::new() }
    }

    pub(super) fn policy(&mut self, policy: &PolicyText) {
        for comment in &policy.comments {
            // A line break in a quoted value must not end the comment.
            let comment = comment.replace(|c: char| c.is_control(), " ");
            let _ = writeln!(self.text, "  # {comment}");
        }
        let name = self.unique(&policy.name);
        let _ = writeln!(self.text, "  - name: {}", scalar(&name));
        if !policy.conditions.is_empty() {
            self.text.push_str("    match:\n");
        }
        for (attribute, patterns) in &policy.conditions {
            let _ = writeln!(self.text, "      {}: {}", scalar(attribute), list(patterns));
        }
        let key: Vec<_> = policy.key.iter().map(|part| key_part(part)).collect();
        let _ = writeln!(self.text, "    key: [{}]", key.join(", "));
        let _ = writeln!(self.text, "    limits: [{}]", policy.limits.join(", "));
        if let Some(algorithm) = &policy.algorithm {
            let _ = writeln!(self.text, "    algorithm: {algorithm}");
        }
        if policy.counts_denied {
            self.text.push_str("    count_denied: true\n");
        }
        if let Some(mode) = policy.mode {
            let _ = writeln!(self.text, "    mode: {mode}");
        }
        if let Some(format) = &policy.key_format {
            let _ = writeln!(self.text, "    key_format: {}", scalar(format));
        }
    }

    pub(super) fn comment(&mut self, text: &str) {
        let _ = writeln!(self.text, "  # {}", text.replace(|c: char| c.is_control(), " "));
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    /// A name that is short enough and not taken by another policy.
    fn unique(&mut self, name: &str) -> String {
        let clean: String = name.chars().filter(|c| !c.is_control()).collect();
        let mut end = clean.len().min(Policy::MAX_NAME - 8);
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        let base = clean.get(..end).unwrap_or_default();
        let base = if base.is_empty() { "imported" } else { base };
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut candidates = std::iter::once(base.to_owned()).chain(numbered);
        let name = candidates.find(|name| !self.names.contains(name)).unwrap_or_default();
        self.names.insert(name.clone());
        name
    }
}

/// In other limiters' files, `ip` and `path` are plain text.
fn key_part(name: &str) -> String {
    match name {
        "ip" | "path" => format!("{{ attribute: {name}, as: text }}"),
        _ => scalar(name),
    }
}

fn list(patterns: &[String]) -> String {
    match patterns {
        [one] => scalar(one),
        many => format!("[{}]", many.iter().map(|one| scalar(one)).collect::<Vec<_>>().join(", ")),
    }
}

/// Plain if that is unambiguous, otherwise in double quotes.
pub(super) fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'))
        && !matches!(text.to_ascii_lowercase().as_str(), "null" | "true" | "false");
    if is_plain {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
