//! Reads the members of mappings, and reports values of the wrong kind and unknown names.

use super::{ByteRange, SourceValue, YamlEntry, YamlNode, YamlValue};
use crate::files::problem::{ProblemReport, brief};
use crate::section::{SectionPlace, known_fields, program_of};

/// A mapping with a fixed set of fields. An unknown name in it was already reported.
#[derive(Debug)]
pub struct YamlFields<'n> {
    /// The place of the whole mapping: a missing field has no place of its own.
    at: ByteRange,
    entries: &'n [YamlEntry],
}

impl<'n> YamlFields<'n> {
    /// Reads a mapping; reports any other value, and every name that is not in `known`. `what` says
    /// in messages what the mapping describes.
    pub fn of(
        node: &'n YamlNode,
        what: &str,
        known: &[&str],
        report: &mut ProblemReport<'_>,
    ) -> Option<Self> {
        let YamlValue::Map(entries) = &node.value else {
            let expected = format!("{what}: a mapping with {}", known.join(", "));
            unexpected(node, &expected, report);
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.name.value.as_str())) {
            report.add_unknown(&entry.name.at, "field", &entry.name.value, known);
        }
        Some(Self { at: node.at.clone(), entries })
    }

    /// The same for a mapping that sections extend. A field of a section that the program does not have
    /// is reported with the program that reads it.
    pub fn extended(
        node: &'n YamlNode,
        what: &str,
        own: &[&'static str],
        place: SectionPlace,
        report: &mut ProblemReport<'_>,
    ) -> Option<Self> {
        let known = known_fields(own, place, report.source().sections());
        let YamlValue::Map(entries) = &node.value else {
            return Self::of(node, what, &known, report);
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.name.value.as_str())) {
            let name = &entry.name.value;
            match program_of(name, place) {
                Some(program) => report.add(
                    &entry.name.at,
                    format!("{name:?} is for {program}: this program does not read it"),
                ),
                None => report.add_unknown(&entry.name.at, "field", name, &known),
            }
        }
        Some(Self { at: node.at.clone(), entries })
    }

    /// The fields of sections.
    pub fn entries_at(&self, place: SectionPlace, report: &ProblemReport<'_>) -> Vec<YamlEntry> {
        let is_known = |entry: &&YamlEntry| {
            place.fields(report.source().sections()).any(|name| name == entry.name.value)
        };
        self.entries.iter().filter(is_known).cloned().collect()
    }

    /// The value of a field, unless the field is missing or null.
    pub fn get(&self, name: &str) -> Option<&'n YamlNode> {
        let entry = self.entries.iter().find(|entry| entry.name.value == name)?;
        (!entry.node.is_null()).then_some(&entry.node)
    }

    /// The same as [`get`](Self::get), but a missing or null field is reported.
    pub fn required(
        &self,
        name: &str,
        expected: &str,
        report: &mut ProblemReport<'_>,
    ) -> Option<&'n YamlNode> {
        let found = self.get(name);
        if found.is_none() {
            let entry = self.entries.iter().find(|entry| entry.name.value == name);
            let at = entry.map_or(&self.at, |entry| &entry.name.at);
            report.add(at, format!("no {name:?}: expected {expected}"));
        }
        found
    }

    /// The text of a field, if the field is there.
    pub fn text(&self, name: &str, report: &mut ProblemReport<'_>) -> Option<SourceValue<String>> {
        self.get(name).and_then(|node| text(node, "text", report))
    }

    /// The value of a field that is true or false.
    pub fn truth(&self, name: &str, report: &mut ProblemReport<'_>) -> Option<SourceValue<bool>> {
        let text = self.get(name).and_then(|node| text(node, "true or false", report))?;
        match text.value.as_str() {
            "true" => Some(text.map(|_| true)),
            "false" => Some(text.map(|_| false)),
            other => {
                report.add(&text.at, format!("{:?}: expected true or false", brief(other)));
                None
            }
        }
    }

    /// The items of a list.
    pub fn list(&self, name: &str, report: &mut ProblemReport<'_>) -> Option<&'n [YamlNode]> {
        let node = self.get(name)?;
        match &node.value {
            YamlValue::List(items) => Some(items),
            _ => {
                unexpected(node, "a list", report);
                None
            }
        }
    }
}

/// The items of a list. Any other value counts as a list of one item.
pub fn one_or_many(node: &YamlNode) -> &[YamlNode] {
    match &node.value {
        YamlValue::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// The text of a node; any other value is reported.
pub fn text(
    node: &YamlNode,
    expected: &str,
    report: &mut ProblemReport<'_>,
) -> Option<SourceValue<String>> {
    match &node.value {
        YamlValue::Text(text) => Some(SourceValue::new(node.at.clone(), text.clone())),
        _ => {
            unexpected(node, expected, report);
            None
        }
    }
}

/// The members of a mapping; any other value is reported.
pub fn entries<'n>(
    node: &'n YamlNode,
    expected: &str,
    report: &mut ProblemReport<'_>,
) -> &'n [YamlEntry] {
    match &node.value {
        YamlValue::Map(entries) => entries,
        _ => {
            unexpected(node, expected, report);
            &[]
        }
    }
}

/// Reports a value of the wrong kind.
pub fn unexpected(node: &YamlNode, expected: &str, report: &mut ProblemReport<'_>) {
    let found = match &node.value {
        YamlValue::Text(text) => format!("{:?}", brief(text)),
        _ => node.kind().to_owned(),
    };
    report.add(&node.at, format!("{found}: expected {expected}"));
}
