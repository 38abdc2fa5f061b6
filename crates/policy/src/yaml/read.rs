//! Reads members of mappings, and reports what is not as expected.

use super::{At, Entry, Node, Spot, Value};
use crate::problem::{Report, brief};

/// The members of a mapping whose names are known.
pub(crate) struct Fields<'n> {
    at: At,
    entries: &'n [Entry],
}

impl<'n> Fields<'n> {
    /// Reports anything that is not a mapping, and every unknown name.
    pub(crate) fn of(
        node: &'n Node,
        what: &str,
        known: &[&str],
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let expected = format!("{what}: a mapping with {}", known.join(", "));
            unexpected(node, &expected, report);
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.name.value.as_str())) {
            report.unknown(&entry.name.at, "field", &entry.name.value, known);
        }
        Some(Self { at: node.at.clone(), entries })
    }

    /// A member that is present and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        let entry = self.entries.iter().find(|entry| entry.name.value == name)?;
        (!entry.node.is_null()).then_some(&entry.node)
    }

    /// The same, with a problem if it is missing.
    pub(crate) fn required(
        &self,
        name: &str,
        expected: &str,
        report: &mut Report<'_>,
    ) -> Option<&'n Node> {
        let found = self.get(name);
        if found.is_none() {
            let entry = self.entries.iter().find(|entry| entry.name.value == name);
            let at = entry.map_or(&self.at, |entry| &entry.name.at);
            report.add(at, format!("no {name:?}: expected {expected}"));
        }
        found
    }

    pub(crate) fn text(&self, name: &str, report: &mut Report<'_>) -> Option<Spot<String>> {
        self.get(name).and_then(|node| text(node, "text", report))
    }

    pub(crate) fn truth(&self, name: &str, report: &mut Report<'_>) -> Option<Spot<bool>> {
        let spot = self.get(name).and_then(|node| text(node, "true or false", report))?;
        match spot.value.as_str() {
            "true" => Some(spot.map(|_| true)),
            "false" => Some(spot.map(|_| false)),
            other => {
                report.add(&spot.at, format!("{:?}: expected true or false", brief(other)));
                None
            }
        }
    }

    /// Each of the items of a list.
    pub(crate) fn list(&self, name: &str, report: &mut Report<'_>) -> Option<&'n [Node]> {
        let node = self.get(name)?;
        match &node.value {
            Value::List(items) => Some(items),
            _ => {
                unexpected(node, "a list", report);
                None
            }
        }
    }
}

/// A list, or one item in place of a list with one item.
pub(crate) fn one_or_many(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

pub(crate) fn text(node: &Node, expected: &str, report: &mut Report<'_>) -> Option<Spot<String>> {
    match &node.value {
        Value::Text(text) => Some(Spot::new(node.at.clone(), text.clone())),
        _ => {
            unexpected(node, expected, report);
            None
        }
    }
}

pub(crate) fn entries<'n>(node: &'n Node, expected: &str, report: &mut Report<'_>) -> &'n [Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => {
            unexpected(node, expected, report);
            &[]
        }
    }
}

pub(crate) fn unexpected(node: &Node, expected: &str, report: &mut Report<'_>) {
    let found = match &node.value {
        Value::Text(text) => format!("{:?}", brief(text)),
        _ => node.kind().to_owned(),
    };
    report.add(&node.at, format!("{found}: expected {expected}"));
}
