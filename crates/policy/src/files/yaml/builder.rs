//! Parses YAML into a tree with bounds on its depth, values and bytes, aliases included.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};

use super::{ByteRange, SourceValue, YamlEntry, YamlNode, YamlValue};
use crate::files::problem::ProblemReport;

/// Parses the only document of a source. `None` if it is not YAML or exceeds a bound; the report says
/// why.
pub(crate) fn parse(report: &mut ProblemReport<'_>) -> Option<YamlNode> {
    let mut options = Options::default();
    options.block_nesting_limit = 2 * MAX_DEPTH;
    options.flow_nesting_limit = 2 * MAX_DEPTH;
    let text = report.source().text();
    let mut builder = YamlBuilder::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let result = match next {
            Ok((event, span)) => builder.on_event(event, &span, text, report),
            Err(error) => {
                let at = error.marker().byte_offset().unwrap_or(0);
                Err((at..at, format!("this is not YAML: {}", error.info())))
            }
        };
        if let Err((at, message)) = result {
            report.add(&at, message);
            return None;
        }
    }
    if builder.root.is_none() {
        report.add(&(0..0), "the file is empty: expected policies");
    }
    builder.root
}

type YamlProblem = (ByteRange, String);

#[derive(Default)]
struct YamlBuilder {
    root: Option<YamlNode>,
    open: Vec<YamlFrame>,
    anchors: HashMap<usize, (YamlNode, YamlWeight)>,
    weight: YamlWeight,
}

/// A list or mapping that is not complete yet.
struct YamlFrame {
    node: YamlNode,
    anchor: usize,
    /// The name whose value comes next.
    name: Option<SourceValue<String>>,
    names: HashSet<String>,
    /// The weight of everything before it.
    before: YamlWeight,
}

/// The size of a part of the tree, or of the whole tree so far.
#[derive(Clone, Copy, Default)]
struct YamlWeight {
    values: usize,
    bytes: usize,
}

impl YamlWeight {
    fn plus(self, other: Self) -> Self {
        let values = self.values.saturating_add(other.values);
        Self { values, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, other: Self) -> Self {
        let values = self.values.saturating_sub(other.values);
        Self { values, bytes: self.bytes.saturating_sub(other.bytes) }
    }
}

impl YamlBuilder {
    fn on_event(
        &mut self,
        event: Event<'_>,
        span: &Span,
        text: &str,
        report: &mut ProblemReport<'_>,
    ) -> Result<(), YamlProblem> {
        let at = span.byte_range().unwrap_or(0..0);
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                let raw_tag = span.tag_span().and_then(|tag| tag.slice(text));
                let value = match (tag, raw_tag) {
                    (None, _) => scalar(value.into_owned(), style),
                    // In YAML, `!GET` is a tag without a value; its author means a negation.
                    (Some(_), Some(raw)) if value.is_empty() => YamlValue::Text(raw.to_owned()),
                    (Some(_), raw) => return Err((at, no_tags(raw.unwrap_or("a tag")))),
                };
                let at = match span.tag_span().and_then(|tag| tag.byte_range()) {
                    Some(tag) => tag,
                    None => at,
                };
                self.value(YamlNode { at, value }, anchor, report)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(at, YamlValue::List(Vec::new()), anchor, tag.is_some())
            }
            Event::MappingStart(_, anchor, tag) => {
                self.open(at, YamlValue::Map(Vec::new()), anchor, tag.is_some())
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(report),
            Event::Alias(anchor) => self.alias(at, anchor, report),
            Event::DocumentStart(..) if self.root.is_some() => {
                Err((at, "a second document begins: expected one".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn open(
        &mut self,
        at: ByteRange,
        value: YamlValue,
        anchor: usize,
        tagged: bool,
    ) -> Result<(), YamlProblem> {
        if tagged {
            return Err((at, no_tags("a tag")));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err((at, format!("nested too deeply: expected at most {MAX_DEPTH} levels")));
        }
        let before = self.weight;
        self.spend(&at, YamlWeight { values: 1, bytes: 0 })?;
        let node = YamlNode { at, value };
        self.open.push(YamlFrame { node, anchor, name: None, names: HashSet::new(), before });
        Ok(())
    }

    fn close(&mut self, report: &mut ProblemReport<'_>) -> Result<(), YamlProblem> {
        let Some(done) = self.open.pop() else { return Ok(()) };
        if done.anchor != 0 {
            let weight = self.weight.minus(done.before);
            self.anchors.insert(done.anchor, (done.node.clone(), weight));
            // The copy for aliases counts too.
            self.spend(&done.node.at, weight)?;
        }
        self.place(done.node, report)
    }

    fn value(
        &mut self,
        node: YamlNode,
        anchor: usize,
        report: &mut ProblemReport<'_>,
    ) -> Result<(), YamlProblem> {
        let bytes = if let YamlValue::Text(text) = &node.value { text.len() } else { 0 };
        let weight = YamlWeight { values: 1, bytes };
        self.spend(&node.at, weight)?;
        if anchor != 0 {
            self.spend(&node.at, weight)?;
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        self.place(node, report)
    }

    fn alias(
        &mut self,
        at: ByteRange,
        anchor: usize,
        report: &mut ProblemReport<'_>,
    ) -> Result<(), YamlProblem> {
        let Some((_, weight)) = self.anchors.get(&anchor) else {
            return Err((at, "an alias inside the value that it refers to".to_owned()));
        };
        let weight = *weight;
        self.spend(&at, weight)?;
        let copy = self.anchors.get(&anchor).map(|(node, _)| node.clone());
        copy.map_or(Ok(()), |copy| self.place(copy, report))
    }

    fn spend(&mut self, at: &ByteRange, weight: YamlWeight) -> Result<(), YamlProblem> {
        self.weight = self.weight.plus(weight);
        if self.weight.values > MAX_VALUES || self.weight.bytes > MAX_TEXT {
            let most = format!("{MAX_VALUES} values and {} MiB of text", MAX_TEXT >> 20);
            return Err((
                at.clone(),
                format!("too large with its aliases: expected at most {most}"),
            ));
        }
        Ok(())
    }

    /// Adds a complete value to its parent.
    fn place(&mut self, node: YamlNode, report: &mut ProblemReport<'_>) -> Result<(), YamlProblem> {
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut parent.node.value, parent.name.take()) {
            (YamlValue::List(items), _) => items.push(node),
            (YamlValue::Map(entries), Some(name)) => {
                if parent.names.insert(name.value.clone()) {
                    entries.push(YamlEntry { name, node });
                } else {
                    report.add(
                        &name.at,
                        format!("{:?} occurs twice", crate::files::problem::brief(&name.value)),
                    );
                }
            }
            (YamlValue::Map(_), None) => match node.value {
                YamlValue::Text(text) if text == "<<" => {
                    return Err((node.at, "merge keys (<<) are not supported".to_owned()));
                }
                YamlValue::Text(text) => parent.name = Some(SourceValue::new(node.at, text)),
                _ => {
                    let kind = node.kind();
                    return Err((node.at, format!("{kind} as a name: expected text")));
                }
            },
            _ => {}
        }
        Ok(())
    }
}

fn scalar(text: String, style: ScalarStyle) -> YamlValue {
    let is_null = matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL");
    if style == ScalarStyle::Plain && is_null { YamlValue::Null } else { YamlValue::Text(text) }
}

fn no_tags(tag: &str) -> String {
    format!("tags have no meaning here: {tag:?}; quote a text that begins with \"!\"")
}

const MAX_DEPTH: usize = 32;
const MAX_VALUES: usize = 600_000;
const MAX_TEXT: usize = 16 << 20;
