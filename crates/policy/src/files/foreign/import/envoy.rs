//! Translates envoyproxy/ratelimit files.

use super::writer::{ImportWriter, PolicyText};
use crate::files::foreign::envoy::{EnvoyFile, EnvoyFileDescriptor, EnvoyFileLimit};
use crate::files::problem::{ProblemReport, brief};
use crate::files::yaml::{SourceValue, YamlNode};

/// Writes a policy for each limit. In Envoy's file the most specific entry wins, in ours all policies
/// that match apply: so a less specific policy excludes its more specific siblings.
pub(super) fn translate(root: &YamlNode, report: &mut ProblemReport<'_>) -> Option<String> {
    let file = EnvoyFile::read(root, report)?;
    let mut writer = ImportWriter::new("envoyproxy/ratelimit");
    writer.comment("The domain and the entries of descriptors are attributes here.");
    writer.comment(
        "In Envoy a descriptor matches as a whole; here a request can have more attributes.",
    );
    let path = DescriptorPath::new(&file.domain, report)?;
    level(&file.descriptors, &path, &mut writer);
    Some(writer.finish())
}

/// The entries that lead to a descriptor.
#[derive(Clone)]
struct DescriptorPath {
    name: String,
    conditions: Vec<(String, Vec<String>)>,
    key: Vec<String>,
    notes: Vec<String>,
    /// Whether an entry on the path cannot be expressed here: without it, the policy would limit more.
    is_off: bool,
}

impl DescriptorPath {
    /// The path of a domain, whose name must not be a pattern in our format.
    fn new(domain: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Self> {
        let name = &domain.value;
        if name.contains('*') || name.starts_with('!') {
            let problem = format!("the domain {:?} would be a pattern here", brief(name));
            report.add(&domain.at, format!("{problem}: expected one without \"*\" or \"!\""));
            return None;
        }
        Some(Self {
            name: name.clone(),
            conditions: vec![(DOMAIN.to_owned(), vec![name.clone()])],
            key: Vec::new(),
            notes: Vec::new(),
            is_off: false,
        })
    }

    fn extended(&self, file: &EnvoyFileDescriptor, siblings: &[EnvoyFileDescriptor]) -> Self {
        let mut path = self.clone();
        let key = &file.key.value;
        path.name = match &file.value {
            Some(value) => format!("{}.{key}_{}", self.name, value.value),
            None => format!("{}.{key}", self.name),
        };
        if !is_expressible(file) {
            let entry =
                format!("{key:?} {:?}", file.value.as_ref().map_or("", |value| &value.value));
            path.notes.push(format!("Not carried over, so switched off: the entry {entry}."));
            path.is_off = true;
            return path;
        }
        let patterns = patterns(file, siblings);
        if let Some((_, earlier)) = path.conditions.iter_mut().find(|(name, _)| name == key) {
            path.notes
                .push(format!("{key} occurs twice on the path to this limit: both must match."));
            earlier.extend(patterns.into_iter().filter(|pattern| pattern.starts_with('!')));
        } else {
            path.conditions.push((key.clone(), patterns));
        }
        if file.shares_threshold {
            path.notes.push(format!("share_threshold: all values of {key} share one counter."));
        } else if !path.key.contains(key) {
            path.key.push(key.clone());
        }
        path
    }
}

/// Here, an entry cannot be called like the domain attribute, and a leading `!` negates a value.
fn is_expressible(file: &EnvoyFileDescriptor) -> bool {
    let is_negation = file.value.as_ref().is_some_and(|value| value.value.starts_with('!'));
    file.key.value != DOMAIN && !is_negation
}

/// The patterns of a value for which no sibling is more specific: a value beats a wildcard, and an
/// earlier wildcard beats a later one.
fn patterns(file: &EnvoyFileDescriptor, siblings: &[EnvoyFileDescriptor]) -> Vec<String> {
    let own = file.value.as_ref().map(|value| value.value.as_str());
    let mut patterns = vec![own.map_or("*".to_owned(), pattern)];
    let mut is_earlier = true;
    for other in siblings.iter().filter(|other| other.key.value == file.key.value) {
        if std::ptr::eq(other, file) {
            is_earlier = false;
            continue;
        }
        let Some(value) = other.value.as_ref().map(|value| value.value.as_str()) else { continue };
        if beats(value, own, is_earlier) {
            patterns.push(format!("!{}", pattern(value)));
        }
    }
    patterns
}

fn beats(other: &str, own: Option<&str>, is_earlier: bool) -> bool {
    let Some(own) = own else { return true };
    let Some(own) = own.strip_suffix('*') else { return false };
    match other.strip_suffix('*') {
        None => other.starts_with(own),
        Some(other) => is_earlier && (other.starts_with(own) || own.starts_with(other)),
    }
}

/// In Envoy's file a prefix matches across slashes. Here it does so only as a glob.
fn pattern(value: &str) -> String {
    match value.strip_suffix('*') {
        Some(prefix) if prefix.starts_with('/') => format!("{prefix}*/**"),
        _ => value.to_owned(),
    }
}

fn level(files: &[EnvoyFileDescriptor], path: &DescriptorPath, writer: &mut ImportWriter) {
    for file in files {
        let path = path.extended(file, files);
        if let Some(limit) = &file.limit {
            writer.policy(&policy(limit, file, &path));
        }
        level(&file.descriptors, &path, writer);
    }
}

fn policy(limit: &EnvoyFileLimit, file: &EnvoyFileDescriptor, path: &DescriptorPath) -> PolicyText {
    let mut text = PolicyText::new(limit.name.as_ref().map_or(&path.name, |name| &name.value));
    text.comments.clone_from(&path.notes);
    for name in &limit.replaces {
        let note = format!("Not carried over: replaces {:?}. Both limits apply here.", name.value);
        text.comments.push(note);
    }
    text.conditions.clone_from(&path.conditions);
    text.key.clone_from(&path.key);
    match limit.rate {
        None => text.limits.push("unlimited".to_owned()),
        Some((requests, unit)) => {
            let window = match unit.name {
                "week" => "7d",
                "month" => "30d",
                "year" => "365d",
                name => name,
            };
            text.limits.push(format!("{requests}/{window}"));
            text.algorithm = Some("fixed-window".to_owned());
        }
    }
    text.mode = match (path.is_off, file.is_shadow) {
        (true, _) => Some("off"),
        (false, true) => Some("shadow"),
        (false, false) => None,
    };
    text
}

/// The attribute that holds Envoy's domain.
const DOMAIN: &str = "domain";
