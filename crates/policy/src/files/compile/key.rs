//! Compiles the keys of policies, and the overrides for some keys.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tidegate_core::{Fingerprint, KeyTemplate};

use super::limits::{LimitContext, limit_set};
use super::{PolicyCompiler, conditions, key_format, whole};
use crate::files::file::{self, FileChoice, KeyFormName};
use crate::files::nearest_name::nearest;
use crate::files::normalise::{DEFAULT_PREFIX, NormalForm, RouteTemplates};
use crate::files::planned_policy::LimitSet;
use crate::files::problem::{ProblemReport, brief};
use crate::files::settings::PathCase;
use crate::files::subject::{KeyPart, OverrideKey};
use crate::files::yaml::SourceValue;
use crate::{KeyHasher, PolicySource};

pub(super) fn key(
    file: &[file::FileKeyPart],
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> Vec<KeyPart> {
    let mut key: Vec<KeyPart> = Vec::new();
    for part in file {
        let (name, fields) = match part {
            file::FileKeyPart::Name(name) => (name, None),
            file::FileKeyPart::Fields(fields) => (&fields.attribute, Some(fields)),
        };
        if key.iter().any(|other| *other.name == *name.value) {
            report.add(&name.at, format!("{:?} occurs twice in the key", brief(&name.value)));
        }
        if key.len() >= MAX_PARTS {
            report.add(&name.at, format!("a key of more than {MAX_PARTS} attributes"));
            break;
        }
        let form = match fields {
            Some(fields) => form(fields, compiler.attributes.path_case(), report),
            None => Some(NormalForm::of(&name.value, compiler.attributes.path_case())),
        };
        let default = fields.and_then(|fields| fields.default.as_ref());
        let default = default.map(|default| default.value.as_bytes().into());
        let attribute = conditions::attribute(name, &mut compiler.attributes, report);
        if let (Some(attribute), Some(form)) = (attribute, form) {
            key.push(KeyPart { attribute, name: name.value.as_str().into(), form, default });
        }
    }
    key
}

fn form(
    file: &file::FileKeyFields,
    case: PathCase,
    report: &mut ProblemReport<'_>,
) -> Option<NormalForm> {
    let named = match &file.form {
        None if !file.routes.is_empty() => NormalForm::Route(RouteTemplates::new(case)),
        None => NormalForm::of(&file.attribute.value, case),
        Some(name) => match KeyFormName::named(name, report)? {
            KeyFormName::Text => NormalForm::Text,
            KeyFormName::Lower => NormalForm::Lower,
            KeyFormName::Ip => NormalForm::Ip { prefix: DEFAULT_PREFIX },
            KeyFormName::Path => NormalForm::Path(case),
            KeyFormName::Route => NormalForm::Route(RouteTemplates::new(case)),
        },
    };
    match (named, &file.prefix) {
        (NormalForm::Ip { .. }, Some(text)) => {
            prefix(text, report).map(|prefix| NormalForm::Ip { prefix })
        }
        (_, Some(text)) => {
            report.add(&text.at, "a prefix applies only to addresses: expected it with as: ip");
            None
        }
        (NormalForm::Route(_), None) => routes(file, case, report).map(NormalForm::Route),
        (_, None) if !file.routes.is_empty() => {
            report.add(
                &file.attribute.at,
                "routes apply only to paths: expected them with as: route",
            );
            None
        }
        (form, None) => Some(form),
    }
}

fn prefix(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<u8> {
    let bits = whole(text, "a prefix", report)?;
    let bits = u8::try_from(bits).ok().filter(|bits| (16..=128).contains(bits));
    if bits.is_none() {
        report.add(&text.at, format!("{:?}: expected a prefix of 16 to 128", brief(&text.value)));
    }
    bits
}

fn routes(
    file: &file::FileKeyFields,
    case: PathCase,
    report: &mut ProblemReport<'_>,
) -> Option<RouteTemplates> {
    if file.routes.is_empty() || file.routes.len() > MAX_ROUTES {
        let expected = format!("a list of 1 to {MAX_ROUTES} templates, such as /users/{{id}}");
        report.add(&file.attribute.at, format!("as: route without routes: expected {expected}"));
        return None;
    }
    let mut routes = RouteTemplates::new(case);
    for template in &file.routes {
        if let Err(problem) = routes.push(&template.value) {
            report.add(&template.at, format!("{:?}: {problem}", brief(&template.value)));
        }
    }
    Some(routes)
}

/// The parts of a policy that are needed to compile overrides that stand in no file.
pub(crate) struct OverrideContext<'a> {
    pub(super) limits: &'a LimitContext<'a>,
    pub(super) template: Option<&'a KeyTemplate>,
}

impl OverrideContext<'_> {
    pub(crate) const fn policy(&self) -> &str {
        self.limits.name
    }

    /// Compiles overrides from a text with the form of the `overrides` section of a file.
    pub(crate) fn overrides(
        &self,
        key: &[KeyPart],
        report: &mut ProblemReport<'_>,
    ) -> HashMap<Fingerprint, LimitSet, RandomState> {
        let Some(root) = crate::files::yaml::parse(report) else { return HashMap::default() };
        let overrides = overrides(&file::overrides(&root, report), key, self.limits, report);
        for limits in overrides.values() {
            if let Some(problem) = key_format::problem(self.policy(), self.template, limits) {
                report.add(&root.at, problem);
            }
        }
        overrides
    }
}

pub(super) fn overrides(
    file: &[file::FileOverride],
    key: &[KeyPart],
    context: &LimitContext<'_>,
    report: &mut ProblemReport<'_>,
) -> HashMap<Fingerprint, LimitSet, RandomState> {
    let mut overrides = HashMap::default();
    for entry in file {
        let limits = limit_set(&entry.limits, context, report);
        let Some(values) = values(&entry.key, key, report) else { continue };
        let subject = context.hasher.fingerprint(&values);
        if overrides.contains_key(&subject) {
            let text = brief(&entry.key.value);
            report.add(&entry.key.at, format!("{text:?} is the same key as an earlier one"));
        }
        if let Some(limits) = limits {
            overrides.insert(subject, limits);
        }
    }
    overrides
}

/// The subject of an override's key, if the key is valid.
pub(crate) fn subject_of(text: &str, key: &[KeyPart], hasher: &KeyHasher) -> Option<Fingerprint> {
    let source = PolicySource::new("key", text).ok()?;
    let text = SourceValue::new(0..0, text.to_owned());
    Some(hasher.fingerprint(&values(&text, key, &mut ProblemReport::new(&source))?))
}

/// `user=42`, or `tenant=a, user=42`: a value for each attribute of the key.
fn values<'k>(
    text: &'k SourceValue<String>,
    key: &'k [KeyPart],
    report: &mut ProblemReport<'_>,
) -> Option<OverrideKey<'k>> {
    let mut given: Vec<(&str, &str)> = Vec::new();
    let mut start = 0;
    // A comma belongs to a value unless an attribute of the key follows it.
    let ends = text.value.match_indices(',').map(|(at, _)| at).chain([text.value.len()]);
    for end in ends {
        let follows = text.value.get(end + 1..).map(str::trim_start);
        let begins = |part: &KeyPart, rest: &str| {
            rest.strip_prefix(&*part.name).is_some_and(|rest| rest.starts_with('='))
        };
        if follows.is_some_and(|rest| !key.iter().any(|part| begins(part, rest))) {
            continue;
        }
        let item = text.value.get(start..end).unwrap_or_default().trim();
        start = end + 1;
        match item.split_once('=') {
            Some((name, value)) => given.push((name.trim(), value)),
            None => given.push((item, "")),
        }
    }
    let names: Vec<&str> = key.iter().map(|part| &*part.name).collect();
    let expected = names.iter().map(|name| format!("{name}=...")).collect::<Vec<_>>().join(",");
    let unknown = given.iter().find(|(name, _)| !names.contains(name));
    let hint = unknown.and_then(|(name, _)| nearest(name, names.iter().copied()));
    let found = |name: &&str| given.iter().filter(|(other, _)| other == name).count() == 1;
    if unknown.is_some() || key.is_empty() || !names.iter().all(found) || !text.value.contains('=')
    {
        let hint = hint.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
        let value = brief(&text.value);
        let why = match key.is_empty() {
            true => {
                "its key is [], one counter for everyone, so it can have no overrides".to_owned()
            }
            false => format!("expected {expected}"),
        };
        report.add(&text.at, format!("{value:?} is not a key of this policy{hint}: {why}"));
        return None;
    }
    let value = |part: &'k KeyPart| {
        let (_, value) = given.iter().find(|(name, _)| *name == &*part.name)?;
        Some((&part.form, value.as_bytes()))
    };
    Some(OverrideKey(key.iter().filter_map(value).collect()))
}

const MAX_PARTS: usize = 8;
const MAX_ROUTES: usize = 1_000;
