//! Finds policies whose templates could give two of them the same key. Each would count the other's
//! callers, and a caller could choose a name that collides with another caller's key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidegate_core::{KeyPlaceholder, KeyTemplate, TemplatePart};

use crate::files::file::FilePolicy;
use crate::files::planned_policy::LimitSet;
use crate::files::problem::ProblemReport;
use crate::policy::limit_name;
use crate::{PlannedPolicy, PolicyMode};

/// Reports each policy that could share a key with an earlier one.
pub(super) fn check(
    policies: &[PlannedPolicy],
    files: &[FilePolicy],
    report: &mut ProblemReport<'_>,
) {
    for (second, first) in overlapping_policies(policies) {
        let (Some(file), Some(other)) = (files.get(second), files.get(first)) else { continue };
        // Two policies of one name are reported already.
        if file.name.value == other.name.value {
            continue;
        }
        let at = file.key_format.as_ref().map_or(&file.name.at, |format| &format.at);
        let line = report.source().span_of(&other.name.at).line;
        let problem = problem(policies, second, first, &format!(" on line {line}"));
        report.add(at, problem.unwrap_or_default());
    }
}

/// Why a policy cannot be used beside the others.
pub(crate) fn problem_of(policies: &[PlannedPolicy], number: usize) -> Option<String> {
    let shared = overlapping_policies(policies);
    let (second, first) =
        shared.iter().find(|(second, first)| number == **second || number == **first)?;
    problem(policies, number, if number == *second { *first } else { *second }, "")
}

fn problem(policies: &[PlannedPolicy], number: usize, other: usize, place: &str) -> Option<String> {
    let (policy, other) = (policies.get(number)?, policies.get(other)?);
    let (template, others) = (policy.key_format()?, other.key_format()?);
    let expected = match (template == others, template.has(KeyPlaceholder::Limit)) {
        (true, true) => "another name, or a key_format that tells them apart",
        (true, false) => "{limit} in it, or a key_format that tells them apart",
        (false, _) => "one that tells them apart",
    };
    let (name, other) = (policy.name(), other.name());
    Some(format!(
        "key_format {:?} and {name:?}: a key could also belong to {other:?}{place}: expected {expected}",
        template.as_str()
    ))
}

/// Policies that could share a key with an earlier one: each number with the number of the first such
/// policy.
fn overlapping_policies(policies: &[PlannedPolicy]) -> BTreeMap<usize, usize> {
    let on = policies.iter().enumerate().filter(|(_, policy)| policy.mode() != PolicyMode::Off);
    let mut outlines: Vec<_> = on
        .flat_map(|(number, policy)| {
            outlines(policy).into_iter().map(move |outline| (number, outline))
        })
        .collect();
    // An outline finds only earlier ones with a shorter tail, so short tails come first.
    outlines.sort_by_key(|(_, outline)| outline.tail.len());
    let (mut taken, mut shared) = (OutlineIndex::default(), BTreeMap::new());
    for (number, outline) in outlines {
        for other in taken.overlaps(&outline, number) {
            let first = number.min(other);
            let known = shared.entry(number.max(other)).or_insert(first);
            *known = first.min(*known);
        }
        taken.insert(outline, number);
    }
    shared
}

/// The fixed text in the names of keys, before and after the caller's name, which can be any text. Two
/// outlines have a name in common if one head begins with the other, and one tail ends with the other.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeyOutline {
    head: String,
    /// The text after the caller's name, reversed.
    tail: String,
}

/// Stands for the number of a window. Templates and names of policies cannot contain it.
const NUMBER: char = '\0';

fn outlines(policy: &PlannedPolicy) -> BTreeSet<KeyOutline> {
    let Some(template) = policy.key_format() else { return BTreeSet::new() };
    limit_names(policy).iter().map(|limit| KeyOutline::new(template, limit)).collect()
}

/// The names of a policy's limits in keys, including tiers and overrides. A limit that does not fit the
/// template has no such key.
pub(crate) fn limit_names(policy: &PlannedPolicy) -> BTreeSet<String> {
    let Some(template) = policy.key_format() else { return BTreeSet::new() };
    let sets = policy.limit_sets().map(LimitSet::rules);
    sets.flat_map(|rules| {
        let kept = rules.iter().filter(|rule| template.check(&rule.limit).is_ok());
        kept.map(|rule| limit_name(policy.name(), rules, rule))
    })
    .collect()
}

impl KeyOutline {
    fn new(template: &KeyTemplate, limit: &str) -> Self {
        let (mut head, mut tail) = (String::new(), None);
        for part in template.parts() {
            let side = tail.as_mut().unwrap_or(&mut head);
            match part {
                TemplatePart::Text(text) => side.push_str(text),
                TemplatePart::Placeholder(KeyPlaceholder::Limit) => side.push_str(limit),
                TemplatePart::Placeholder(KeyPlaceholder::Window(_)) => side.push(NUMBER),
                TemplatePart::Placeholder(KeyPlaceholder::Entity) => tail = Some(String::new()),
            }
        }
        Self { head, tail: tail.unwrap_or_default().chars().rev().collect() }
    }
}

/// The outlines of policies so far: by tail, then by head, with the policy's number.
#[derive(Debug, Default)]
struct OutlineIndex(HashMap<String, BTreeMap<String, usize>>);

impl OutlineIndex {
    fn insert(&mut self, outline: KeyOutline, number: usize) {
        self.0.entry(outline.tail).or_default().entry(outline.head).or_insert(number);
    }

    /// Other policies that could have a name with this outline.
    fn overlaps(&self, outline: &KeyOutline, number: usize) -> BTreeSet<usize> {
        let groups = prefixes(&outline.tail).filter_map(|tail| self.0.get(tail));
        let owners = groups.flat_map(|heads| {
            let from = heads.range(outline.head.clone()..);
            let longer = from.take_while(|(head, _)| head.starts_with(&outline.head));
            let shorter = prefixes(&outline.head).filter_map(|head| heads.get(head));
            longer.map(|(_, owner)| owner).chain(shorter).copied()
        });
        owners.filter(|owner| *owner != number).take(MOST_OTHERS).collect()
    }
}

/// Bounds the work in a file where every policy overlaps with every other.
const MOST_OTHERS: usize = 100;

/// All prefixes of a text, from the empty one to the whole text.
fn prefixes(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.filter_map(|end| text.get(..end))
}
