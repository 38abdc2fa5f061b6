//! Where a configuration may hold secrets, so that none is ever shown: by the names that values have.
//! This hides too much rather than too little, and does not need the text to be valid.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, Parser};

use crate::problem::brief;

/// The parts of a text that are not shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecretRanges {
    /// In bytes, in order, apart from each other.
    parts: Vec<Range<usize>>,
    /// As a reader of the text would understand them.
    values: Vec<String>,
}

impl SecretRanges {
    pub(crate) fn of(text: &str) -> Self {
        let mut walk = SecretScanner::default();
        let read = walk.scan(text);
        let mut secrets = Self { parts: walk.parts, values: walk.values };
        // Nobody knows what the rest means.
        if walk.is_inside {
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

    /// A part of the text, without its secrets.
    pub(crate) fn redact(&self, text: &str, at: Range<usize>) -> String {
        let (mut shown, mut from) = (String::with_capacity(at.len()), at.start);
        for part in self.parts.iter().filter(|it| it.start < at.end && at.start < it.end) {
            shown += text.get(from..part.start.max(from)).unwrap_or_default();
            // A secret of several lines is one in each of them.
            let hidden = text.get(part.start.max(at.start)..part.end.min(at.end));
            for (index, line) in hidden.unwrap_or_default().split('\n').enumerate() {
                shown += if index > 0 { "\n" } else { "" };
                shown += if line.trim().is_empty() { line } else { MASK };
            }
            from = part.end.min(at.end);
        }
        shown + text.get(from..at.end).unwrap_or_default()
    }

    /// A range that no secret is cut by: one that begins or ends within a secret has all of it.
    pub(crate) fn widen(&self, at: Range<usize>) -> Range<usize> {
        let cut = |place: usize| self.parts.iter().find(|it| it.start < place && place < it.end);
        let start = cut(at.start).map_or(at.start, |it| it.start);
        start..cut(at.end).map_or(at.end, |it| it.end).max(start)
    }

    /// A message about the text, without its secrets.
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

/// Follows the structure of a text as far as it has one.
#[derive(Default)]
struct SecretScanner {
    open: Vec<ScannerFrame>,
    /// What is below each anchor, by numbers in `leaves`.
    anchors: HashMap<usize, Range<usize>>,
    leaves: Vec<YamlLeaf>,
    /// The anchors below which all is hidden.
    hidden: HashSet<usize>,
    parts: Vec<Range<usize>>,
    values: Vec<String>,
    /// Whether the text ends, or makes no more sense, within something secret.
    is_inside: bool,
}

/// What a name says of its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueSecrecy {
    Plain,
    /// Rules for headers. All of them are secret, however they are spelt, but for names to remove.
    Headers,
    Secret,
}

impl ValueSecrecy {
    /// That of a value with this name in something of this kind.
    fn of_member(self, name: &str) -> Self {
        match self {
            Self::Secret => Self::Secret,
            Self::Headers if name == "remove" => Self::Plain,
            Self::Headers => Self::Secret,
            Self::Plain if is_secret_name(name) => Self::Secret,
            Self::Plain if is_headers(name) => Self::Headers,
            Self::Plain => Self::Plain,
        }
    }
}

/// What has nothing below it.
enum YamlLeaf {
    Scalar(Range<usize>, String),
    Alias(usize),
}

/// A list or a mapping that is not complete yet.
struct ScannerFrame {
    is_mapping: bool,
    kind: ValueSecrecy,
    /// What the name of the value that comes next says of it; `None` before a name.
    next: Option<ValueSecrecy>,
    anchor: usize,
    /// The first leaf in it.
    first: usize,
}

impl SecretScanner {
    /// Returns up to where it made sense.
    fn scan(&mut self, text: &str) -> usize {
        let mut read = 0;
        for next in Parser::new_from_str(text) {
            let Ok((event, span)) = next else {
                self.is_inside = self.is_secret();
                return read;
            };
            let at = span.byte_range().unwrap_or(read..read);
            read = read.max(at.end);
            self.on_event(event, at);
            if self.leaves.len() > MAX_LEAVES || self.open.len() > MAX_DEPTH {
                self.is_inside = true;
                return read;
            }
        }
        text.len()
    }

    fn on_event(&mut self, event: Event<'_>, at: Range<usize>) {
        match event {
            Event::Scalar(value, _, anchor, _) => {
                let value = value.into_owned();
                if let Some(open) = self.open.last_mut().filter(|it| it.is_mapping)
                    && open.next.is_none()
                {
                    open.next = Some(open.kind.of_member(&value));
                    return;
                }
                self.leaf(YamlLeaf::Scalar(at, value), anchor);
            }
            Event::SequenceStart(_, anchor, _) => self.begin(false, anchor),
            Event::MappingStart(_, anchor, _) => self.begin(true, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(done) = self.open.pop() {
                    self.keep(done.anchor, done.first..self.leaves.len());
                }
                self.complete();
            }
            Event::Alias(anchor) => self.leaf(YamlLeaf::Alias(anchor), 0),
            _ => {}
        }
    }

    fn leaf(&mut self, leaf: YamlLeaf, anchor: usize) {
        let number = self.leaves.len();
        self.leaves.push(leaf);
        if self.is_secret() {
            self.hide(number..number + 1);
        }
        self.keep(anchor, number..number + 1);
        self.complete();
    }

    fn begin(&mut self, is_mapping: bool, anchor: usize) {
        let (kind, first) = (self.kind(), self.leaves.len());
        self.open.push(ScannerFrame { is_mapping, kind, next: None, anchor, first });
    }

    /// What the value that comes next is.
    fn kind(&self) -> ValueSecrecy {
        self.open.last().map_or(ValueSecrecy::Plain, |open| open.next.unwrap_or(open.kind))
    }

    fn is_secret(&self) -> bool {
        self.kind() != ValueSecrecy::Plain
    }

    /// A value is complete: a name comes next.
    fn complete(&mut self) {
        if let Some(open) = self.open.last_mut() {
            // What stands where a name should is a mistake, and has a value all the same.
            let is_odd = open.is_mapping && open.next.is_none();
            open.next = is_odd.then_some(ValueSecrecy::Secret);
        }
    }

    fn keep(&mut self, anchor: usize, leaves: Range<usize>) {
        if anchor != 0 {
            self.anchors.insert(anchor, leaves);
        }
    }

    /// Hides leaves, and what aliases among them stand for.
    fn hide(&mut self, leaves: Range<usize>) {
        let mut next = vec![leaves];
        while let Some(leaves) = next.pop() {
            for leaf in self.leaves.get(leaves).unwrap_or_default() {
                match leaf {
                    YamlLeaf::Scalar(at, value) => {
                        self.parts.push(at.clone());
                        if !value.is_empty() && self.values.len() < MAX_VALUES {
                            self.values.push(value.clone());
                        }
                    }
                    YamlLeaf::Alias(anchor) if self.hidden.insert(*anchor) => {
                        next.extend(self.anchors.get(anchor).cloned());
                    }
                    YamlLeaf::Alias(_) => {}
                }
            }
        }
    }
}

/// What looks secret in comments, and in all lines from `read` on: whatever follows a name that says so,
/// and lines below it that are indented further.
fn by_lines(text: &str, read: usize) -> Vec<Range<usize>> {
    let (mut parts, mut start, mut below) = (Vec::new(), 0, None);
    for line in text.split_inclusive('\n') {
        let at = start..start + line.len();
        start = at.end;
        let comment = line.find('#').filter(|it| {
            let before = line.get(..*it).unwrap_or_default();
            before.is_empty() || before.ends_with(char::is_whitespace)
        });
        // Where it makes sense, only its comment is looked at.
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

/// Where in a line the value of a name begins that says it is secret.
fn secret_in(line: &str) -> Option<usize> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    line.match_indices([':', '=']).find_map(|(at, _)| {
        let before = line.get(..at)?.trim_end_matches(['"', '\'', ' ']);
        let name = before.get(before.rfind(|c: char| !is_of_name(c)).map_or(0, |it| it + 1)..)?;
        let value = line.get(at + 1..)?;
        let begins = at + 1 + (value.len() - value.trim_start().len());
        (is_secret_name(name) || is_headers(name)).then_some(begins)
    })
}

/// Whether a value of this name may be secret: headers that are set, and whatever is called so.
fn is_secret_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(is_of_name) {
        return false;
    }
    let name = name.to_ascii_lowercase();
    let is_said = |word: &str| WORDS.contains(&word);
    matches!(name.as_str(), "set" | "add")
        || ["pass", "pasw", "pwd", "secret"].iter().any(|part| name.contains(part))
        || name.split(['_', '-']).any(is_said)
}

/// Whether this is where headers are changed.
fn is_headers(name: &str) -> bool {
    name.contains("headers") && name != "legacy_headers"
}

const WORDS: &[&str] =
    &["apikey", "auth", "authorization", "bearer", "credential", "credentials", "private", "token"];
const MASK: &str = "***";
/// What is shorter is not looked for in messages without quotes around it: it would be found in words.
const SHORTEST: usize = 4;
const MAX_LEAVES: usize = 700_000;
const MAX_DEPTH: usize = 64;
const MAX_VALUES: usize = 10_000;

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
            // Not YAML any more.
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
