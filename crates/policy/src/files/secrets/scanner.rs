//! Follows the structure of a text to find the values whose names say that they are secret.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, Parser};

use crate::files::secret_names::{is_headers, is_secret_name};

/// Follows the structure of a text as far as it is YAML.
#[derive(Default)]
pub(super) struct SecretScanner {
    open: Vec<ScannerFrame>,
    /// The leaves below each anchor, as positions in `leaves`.
    anchors: HashMap<usize, Range<usize>>,
    leaves: Vec<YamlLeaf>,
    /// The anchors whose leaves are hidden already.
    hidden: HashSet<usize>,
    pub(super) parts: Vec<Range<usize>>,
    pub(super) values: Vec<String>,
    /// Whether the text ends, or stops being YAML, within a secret.
    pub(super) is_inside: bool,
}

/// Whether a value is secret, by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueSecrecy {
    Plain,
    /// Rules for headers. Every member is secret, even a misspelt one, except the names to remove.
    Headers,
    Secret,
}

impl ValueSecrecy {
    /// The secrecy of a member with this name.
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

/// A node without children.
enum YamlLeaf {
    Scalar(Range<usize>, String),
    Alias(usize),
}

/// A list or a mapping that is not complete yet.
struct ScannerFrame {
    is_mapping: bool,
    kind: ValueSecrecy,
    /// The secrecy of the next value, by its name; `None` before a name.
    next: Option<ValueSecrecy>,
    anchor: usize,
    /// The first leaf in it.
    first: usize,
}

impl SecretScanner {
    /// Returns the position up to which the text is YAML.
    pub(super) fn scan(&mut self, text: &str) -> usize {
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
                if let Some(open) = self.open.last_mut().filter(|open| open.is_mapping)
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

    /// The secrecy of the next value.
    fn kind(&self) -> ValueSecrecy {
        self.open.last().map_or(ValueSecrecy::Plain, |open| open.next.unwrap_or(open.kind))
    }

    fn is_secret(&self) -> bool {
        self.kind() != ValueSecrecy::Plain
    }

    /// Ends a value: in a mapping, a name comes next.
    fn complete(&mut self) {
        if let Some(open) = self.open.last_mut() {
            // A list or mapping in place of a name is a mistake, and its value may still be secret.
            let is_odd = open.is_mapping && open.next.is_none();
            open.next = is_odd.then_some(ValueSecrecy::Secret);
        }
    }

    fn keep(&mut self, anchor: usize, leaves: Range<usize>) {
        if anchor != 0 {
            self.anchors.insert(anchor, leaves);
        }
    }

    /// Hides leaves, and the leaves that aliases among them refer to.
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

const MAX_LEAVES: usize = 700_000;
const MAX_DEPTH: usize = 64;
const MAX_VALUES: usize = 10_000;
