//! The compiled tree of an Envoy file's descriptors, and the lookup of a request in it.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tidegate_core::{AlgorithmKind, Charge, Cost, Limit, Quota};

use super::{EnvoyFile, EnvoyFileDescriptor, EnvoyFileLimit};
use crate::files::cost::CostSource;
use crate::files::key_names::KeyNames;
use crate::files::planned_policy::{LimitSet, PlannedPolicy};
use crate::files::problem::{ProblemReport, brief};
use crate::files::request_charges::RequestCharges;
use crate::files::settings::{DEFAULT_DEADLINE, OnStoreError, PolicyMode, Precision};
use crate::key::{Key, key_as_text};
use crate::{Descriptor, KeyHasher, Plan, Policy};

/// A domain of an Envoy configuration.
#[derive(Debug)]
pub struct EnvoyDomain {
    name: String,
    root: DescriptorLevel,
}

/// The children of a descriptor: by key, then by value.
#[derive(Debug, Default)]
struct DescriptorLevel(HashMap<Box<str>, DescriptorBranch, RandomState>);

/// Everything with one key. A value beats a wildcard, which beats the key alone.
#[derive(Debug, Default)]
struct DescriptorBranch {
    values: HashMap<Box<str>, DescriptorEntry, RandomState>,
    wildcards: Vec<(Box<str>, DescriptorEntry)>,
    any: Option<Box<DescriptorEntry>>,
}

#[derive(Debug, Default)]
struct DescriptorEntry {
    limit: Option<EntryLimit>,
    /// Whether all values of the wildcard share one counter.
    shares_threshold: bool,
    children: DescriptorLevel,
}

/// The `rate_limit` of an entry in the file.
#[derive(Debug)]
pub(crate) struct EntryLimit {
    /// `None` when unlimited.
    policy: Option<u32>,
    name: Option<Box<str>>,
    replaces: Vec<Box<str>>,
}

impl EnvoyDomain {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The limit of each descriptor, unless it brings its own limit or another one replaces it.
    pub(crate) fn limits_of(
        &self,
        descriptors: &[Descriptor<'_>],
    ) -> SmallVec<[Option<&EntryLimit>; 4]> {
        let found: SmallVec<[Option<&EntryLimit>; 4]> = descriptors
            .iter()
            .map(|one| if one.limit.is_none() { self.root.find(one.entries) } else { None })
            .collect();
        let is_replaced = |limit: &EntryLimit| {
            let replaces = |other: &&EntryLimit| {
                other.replaces.iter().any(|old| Some(&**old) == limit.name.as_deref())
            };
            limit.name.is_some() && found.iter().flatten().any(replaces)
        };
        found.iter().map(|limit| limit.filter(|limit| !is_replaced(limit))).collect()
    }

    /// Adds the charge of a descriptor to its limit.
    pub(crate) fn charge<'p>(
        &self,
        plan: &'p Plan,
        limit: Option<&EntryLimit>,
        descriptor: &Descriptor<'_>,
        charges: &mut RequestCharges<'p>,
    ) {
        let Some(number) = limit.and_then(|limit| limit.policy) else { return };
        let Some(policy) = plan.policies().get(number as usize) else { return };
        // An Envoy file has no such mode, but an operator can set it at run time.
        if policy.mode() == PolicyMode::Off {
            return;
        }
        let counter_key = EnvoyCounterKey { domain: self, entries: descriptor.entries };
        let subject = plan.hasher.fingerprint(&counter_key);
        for rule in policy.rules() {
            charges.show_next(|| key_as_text(&counter_key));
            charges.push(number, Charge::new(subject, descriptor.cost, rule));
        }
    }

    pub(super) fn compile(
        file: &EnvoyFile,
        hasher: &KeyHasher,
        policies: &mut Vec<PlannedPolicy>,
        report: &mut ProblemReport<'_>,
    ) -> Self {
        let name = file.domain.value.clone();
        let mut compiler = EnvoyCompiler { hasher, policies, report };
        let root = compiler.level(&file.descriptors, &name);
        Self { name, root }
    }
}

impl EntryLimit {
    pub(crate) const fn is_unlimited(&self) -> bool {
        self.policy.is_none()
    }
}

struct EnvoyCompiler<'a, 's> {
    hasher: &'a KeyHasher,
    policies: &'a mut Vec<PlannedPolicy>,
    report: &'a mut ProblemReport<'s>,
}

impl EnvoyCompiler<'_, '_> {
    fn level(&mut self, files: &[EnvoyFileDescriptor], path: &str) -> DescriptorLevel {
        let mut level = DescriptorLevel::default();
        for file in files {
            let value = file.value.as_ref().map(|value| value.value.as_str());
            let path = match value {
                Some(value) => format!("{path}.{}_{value}", file.key.value),
                None => format!("{path}.{}", file.key.value),
            };
            let entry = DescriptorEntry {
                limit: file.limit.as_ref().map(|limit| self.limit(limit, file, &path)),
                shares_threshold: file.shares_threshold,
                children: self.level(&file.descriptors, &path),
            };
            let branch = level.0.entry(file.key.value.as_str().into()).or_default();
            if !branch.insert(value, entry) {
                self.report.add(&file.at, format!("a second descriptor {:?}", brief(&path)));
            }
        }
        level
    }

    fn limit(
        &mut self,
        file: &EnvoyFileLimit,
        descriptor: &EnvoyFileDescriptor,
        path: &str,
    ) -> EntryLimit {
        let policy = file.rate.and_then(|(requests, unit)| {
            let quota = Quota::new(requests, unit.span());
            let limit = quota.and_then(|quota| Limit::new(AlgorithmKind::FixedWindow, &quota));
            let limit = limit.map_err(|error| self.report.add(&file.at, error.to_string())).ok()?;
            let policy = self.policy(path, limit, descriptor.is_shadow);
            let policy =
                policy.map_err(|error| self.report.add(&file.at, error.to_string())).ok()?;
            self.policies.push(policy);
            u32::try_from(self.policies.len() - 1).ok()
        });
        EntryLimit {
            policy,
            name: file.name.as_ref().map(|name| name.value.as_str().into()),
            replaces: file.replaces.iter().map(|name| name.value.as_str().into()).collect(),
        }
    }

    /// The name of a policy: its path, or the beginning of a long path and a fingerprint.
    fn name(&self, path: &str) -> String {
        if path.len() <= Policy::MAX_NAME {
            return path.to_owned();
        }
        let print = self.hasher.fingerprint(path).high();
        let head: String = path.chars().take(20).collect();
        format!("{head}~{print:016x}")
    }

    fn policy(
        &self,
        path: &str,
        limit: Limit,
        is_shadow: bool,
    ) -> Result<PlannedPolicy, crate::PolicyError> {
        let name = self.name(path);
        let policy = Policy::with_hasher(self.hasher.clone(), &*name, [limit])?;
        let policy = if is_shadow { policy.shadowed() } else { policy };
        Ok(PlannedPolicy {
            name,
            mode: if is_shadow { PolicyMode::Shadow } else { PolicyMode::Enforce },
            indexed: None,
            conditions: Vec::new(),
            key: Vec::new(),
            cost: CostSource::Fixed(Cost::ONE),
            limits: LimitSet::Rules(policy.rules().to_vec()),
            tiers: Vec::new(),
            overrides: HashMap::default(),
            block: None,
            on_store_error: OnStoreError::default(),
            store_deadline: DEFAULT_DEADLINE,
            precision: Precision::default(),
            key_names: KeyNames::default(),
            is_counted_later: false,
            sections: Vec::new(),
        })
    }
}

impl DescriptorBranch {
    /// Adds an entry, and returns whether its value is new.
    fn insert(&mut self, value: Option<&str>, entry: DescriptorEntry) -> bool {
        match value.map(|value| (value, value.strip_suffix('*'))) {
            None => self.any.replace(Box::new(entry)).is_none(),
            Some((_, Some(prefix))) => {
                let is_new = self.wildcards.iter().all(|(other, _)| **other != *prefix);
                self.wildcards.push((prefix.into(), entry));
                is_new
            }
            Some((value, None)) => self.values.insert(value.into(), entry).is_none(),
        }
    }

    /// The entry, and the wildcard that led to it.
    fn find(&self, value: &str) -> Option<(&DescriptorEntry, Option<&str>)> {
        if let Some(entry) = self.values.get(value) {
            return Some((entry, None));
        }
        let wildcard = self.wildcards.iter().find(|(prefix, _)| value.starts_with(&**prefix));
        match wildcard {
            Some((prefix, entry)) => Some((entry, Some(prefix))),
            None => self.any.as_deref().map(|entry| (entry, None)),
        }
    }
}

impl DescriptorLevel {
    fn child(&self, (key, value): &(&str, &str)) -> Option<(&DescriptorEntry, Option<&str>)> {
        self.0.get(*key)?.find(value)
    }

    /// The limit of the last entry. Entries that end above or below the limits of the file have none.
    fn find(&self, entries: &[(&str, &str)]) -> Option<&EntryLimit> {
        let (last, path) = entries.split_last()?;
        let mut level = self;
        for entry in path {
            level = &level.child(entry)?.0.children;
        }
        level.child(last)?.0.limit.as_ref()
    }
}

/// The key of a counter: every entry with its value, or with the wildcard if all of its values share
/// one counter.
struct EnvoyCounterKey<'a> {
    domain: &'a EnvoyDomain,
    entries: &'a [(&'a str, &'a str)],
}

impl Key for EnvoyCounterKey<'_> {
    fn each_part(&self, mut part: impl FnMut(&[u8])) {
        let mut level = Some(&self.domain.root);
        for entry in self.entries {
            let found = level.and_then(|level| level.child(entry));
            part(entry.0.as_bytes());
            match found {
                Some((found, Some(prefix))) if found.shares_threshold => {
                    part(prefix.as_bytes());
                    part(b"*");
                }
                _ => part(entry.1.as_bytes()),
            }
            level = found.map(|(found, _)| &found.children);
        }
    }
}
