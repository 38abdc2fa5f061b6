//! Finds the values in a configuration that may be secret, by their names, so that messages mask them.
//! This hides too much rather than too little, and works on text that is not valid YAML.

mod scanner;

use std::ops::Range;

use self::scanner::SecretScanner;
use crate::files::problem::brief;
use crate::files::secret_names::secret_in;

/// The parts of a text that must not be shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecretRanges {
    /// Ranges of bytes, in order and without overlaps.
    parts: Vec<Range<usize>>,
    /// The values after YAML's quotes and escapes are resolved.
    values: Vec<String>,
}

impl SecretRanges {
    pub(crate) fn of(text: &str) -> Self {
        let mut scanner = SecretScanner::default();
        let read = scanner.scan(text);
        let mut secrets = Self { parts: scanner.parts, values: scanner.values };
        // The rest has no known structure, so all of it is hidden.
        if scanner.is_inside {
            secrets.parts.push(read..text.len());
        }
        secrets.parts.extend(by_lines(text, read));
        secrets.parts.retain(|part| !part.is_empty());
        secrets.parts.sort_unstable_by_key(|part| (part.start, part.end));
        secrets.parts.dedup_by(|next, before| {
            let overlaps = next.start <= before.end;
            if overlaps {
                before.end = before.end.max(next.end);
            }
            overlaps
        });
        secrets
    }

    /// A part of the text, with its secrets masked.
    pub(crate) fn redact(&self, text: &str, at: Range<usize>) -> String {
        let (mut shown, mut from) = (String::with_capacity(at.len()), at.start);
        for part in self.parts.iter().filter(|part| part.start < at.end && at.start < part.end) {
            shown += text.get(from..part.start.max(from)).unwrap_or_default();
            // A secret of several lines is masked in each of them.
            let hidden = text.get(part.start.max(at.start)..part.end.min(at.end));
            for (index, line) in hidden.unwrap_or_default().split('\n').enumerate() {
                shown += if index > 0 { "\n" } else { "" };
                shown += if line.trim().is_empty() { line } else { MASK };
            }
            from = part.end.min(at.end);
        }
        shown + text.get(from..at.end).unwrap_or_default()
    }

    /// Widens a range that begins or ends within a secret to all of that secret.
    pub(crate) fn widen(&self, at: Range<usize>) -> Range<usize> {
        let around =
            |place: usize| self.parts.iter().find(|part| part.start < place && place < part.end);
        let start = around(at.start).map_or(at.start, |part| part.start);
        start..around(at.end).map_or(at.end, |part| part.end).max(start)
    }

    /// A message about the text, with the secrets of the text masked.
    pub(crate) fn redact_message(&self, mut message: String) -> String {
        for value in &self.values {
            let shown = brief(value);
            message = message.replace(&format!("{shown:?}"), &format!("\"{MASK}\""));
            if shown.chars().count() >= SHORTEST {
                message = message.replace(&shown, MASK);
            }
        }
        message
    }
}

/// Possible secrets in comments, and in all lines from `read` on: the text after a secret name, and the
/// lines below it that are indented further.
fn by_lines(text: &str, read: usize) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut below) = (Vec::new(), 0, None);
    for line in text.split_inclusive('\n') {
        let at = start..start + line.len();
        start = at.end;
        let comment = line.find('#').filter(|hash| {
            let before = line.get(..*hash).unwrap_or_default();
            before.is_empty() || before.ends_with(char::is_whitespace)
        });
        // In a line that was parsed, only the comment is examined.
        let from = if at.end > read { Some(0) } else { comment };
        let Some(from) = from else {
            below = None;
            continue;
        };
        let Some(part) = line.get(from..) else { continue };
        let is_dressing = |c: char| c.is_whitespace() || c == '#';
        let indent = part.len() - part.trim_start_matches(is_dressing).len();
        let is_blank = indent == part.len();
        if below.is_some_and(|above| indent > above) && !is_blank {
            parts.push(at.start + from + indent..at.start + from + part.trim_end().len());
            continue;
        }
        if !is_blank {
            below = None;
        }
        if let Some(value) = secret_in(part) {
            below = Some(indent);
            let end = at.start + from + part.trim_end().len();
            parts.push((at.start + from + value).min(end)..end);
        }
    }
    parts
}

const MASK: &str = "***";
/// Shorter values are masked in messages only in quotes, since they could be parts of ordinary words.
const SHORTEST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        SecretRanges::of(text).redact(text, 0..text.len())
    }

    #[test]
    fn attack_15_values_with_a_secret_name_are_hidden_wherever_they_stand() {
        for (text, expected) in [
            ("{ set: { x-key: \"s3cr3t\" }, b: 1 }", "{ set: { x-key: *** }, b: 1 }"),
            ("headers: { sett: { x-key: s3cr3t } }", "headers: { sett: { x-key: *** } }"),
            (
                "headers:\n  set:\n    x-key: s3cr3t\n  remove: [a]",
                "headers:\n  set:\n    x-key: ***\n  remove: [a]",
            ),
            ("add: { a: s3cr3t, b: 's3cr3t' }\nname: a", "add: { a: ***, b: *** }\nname: a"),
            ("store_password: s3cr3t", "store_password: ***"),
            (
                "client-secret: [s3cr3t, s3cr3t]\nkey: [user]",
                "client-secret: [***, ***]\nkey: [user]",
            ),
            ("password: |\n  s3cr3t\n  s3cr3t\nname: a", "password: ***\nname: a"),
            ("a: &x { k: s3cr3t }\nset: *x", "a: &x { k: *** }\nset: *x"),
            ("a: &x s3cr3t\nb: &y [*x]\nset: *y", "a: &x ***\nb: &y [*x]\nset: *y"),
            ("a: 1 # password: s3cr3t", "a: 1 # password: ***"),
            ("# set:\n#   x-key: s3cr3t\na: 1", "# set:\n#   ***\na: 1"),
            // Not valid YAML.
            ("set: { x-key: \"s3cr3t", "set: ***"),
            ("a: [\npassword: s3cr3t", "a: [\npassword: ***"),
            (
                "key: [api_key]\ntokens: 5\nkeys: jwt.key",
                "key: [api_key]\ntokens: 5\nkeys: jwt.key",
            ),
        ] {
            let shown = shown(text);
            assert!(!shown.contains("s3cr3t"), "{text}\n{shown}");
            if !text.contains('|') && !text.contains("\"s3cr3t\n") {
                assert_eq!(shown, expected, "{text}");
            }
        }
    }

    #[test]
    fn no_cut_of_a_text_shows_what_the_whole_hides() {
        let text = "gateway:\n  request_headers: { set: { x-key: 'hunter2-hunter2' }, sett: 1 }\n  \
                    routes:\n  - request_headers:\n      add:\n        x-b: \"hunter2-hunter2\"\n";
        for end in 0..text.len() {
            let shown = shown(&text[..end]);
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
