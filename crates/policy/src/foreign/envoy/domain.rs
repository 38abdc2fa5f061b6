//! The tree of descriptors, and how a request walks it.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use smallvec::SmallVec;
use tidegate_core::{AlgorithmKind, Charge, Cost, Limit, Quota};

use super::{DescriptorFile, DomainFile, LimitOfFile};
use crate::key::Key;
use crate::plan::Owed;
use crate::planned::{AtGateway, CostSource, LimitSet, PlannedPolicy};
use crate::problem::{Report, brief};
use crate::settings::{DEFAULT_DEADLINE, Mode, OnStoreError, Precision};
use crate::{KeyHasher, Plan, Policy};

/// A domain of an Envoy configuration.
#[derive(Debug)]
pub struct Domain {
    name: String,
    root: Level,
}

/// One descriptor of a request: entries in order, and what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Keys and values, in the order in which Envoy sends them.
    pub entries: &'a [(&'a str, &'a str)],
    /// Its hits.
    pub cost: Cost,
}

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DescriptorStatus {
    /// No limit is about it, or another one replaces its limit.
    NoLimit,
    /// It is allowed whatever it costs.
    Unlimited,
    /// The charge of this number is its.
    Charged(usize),
}

/// What a request of descriptors owes.
#[derive(Clone, Debug)]
pub struct DescriptorsOwed<'p> {
    /// The charges.
    pub owed: Owed<'p>,
    /// For each descriptor, what became of it.
    pub statuses: SmallVec<[DescriptorStatus; 4]>,
}

/// The children of a descriptor: by key, then by value.
#[derive(Debug, Default)]
struct Level(HashMap<Box<str>, Branch, RandomState>);

/// Everything that has one key. A value beats a wildcard, and that beats the key alone.
#[derive(Debug, Default)]
struct Branch {
    values: HashMap<Box<str>, Entry, RandomState>,
    wildcards: Vec<(Box<str>, Entry)>,
    any: Option<Box<Entry>>,
}

#[derive(Debug, Default)]
struct Entry {
    limit: Option<EntryLimit>,
    /// Whether all values of the wildcard share one counter.
    shares_threshold: bool,
    children: Level,
}

#[derive(Debug)]
struct EntryLimit {
    policy: Option<u32>,
    name: Option<Box<str>>,
    replaces: Vec<Box<str>>,
}

impl Plan {
    /// What descriptors owe in a domain, by the reference server's rules: the most specific
    /// entry wins at each level, and the limit is that of the last entry. Unlike there, all
    /// descriptors pay or none does.
    pub fn descriptor_charges(
        &self,
        domain: &str,
        descriptors: &[Descriptor<'_>],
    ) -> DescriptorsOwed<'_> {
        let domain = self.domains().iter().find(|other| other.name == domain);
        let found: SmallVec<[_; 4]> =
            descriptors.iter().map(|entry| domain?.root.find(entry.entries)).collect();
        let replaced = |name: Option<&str>| {
            name.is_some_and(|name| {
                found.iter().flatten().any(|other| other.replaces.iter().any(|old| **old == *name))
            })
        };
        let mut owed = Owed::new(self.policies());
        let mut statuses = SmallVec::new();
        for (descriptor, limit) in descriptors.iter().zip(&found) {
            let limit = limit.filter(|limit| !replaced(limit.name.as_deref()));
            statuses.push(match (limit, limit.and_then(|limit| limit.policy)) {
                (None, _) => DescriptorStatus::NoLimit,
                (Some(_), None) => DescriptorStatus::Unlimited,
                (Some(_), Some(number)) => {
                    self.charge(number, domain, descriptor, &mut owed);
                    DescriptorStatus::Charged(owed.charges().len().saturating_sub(1))
                }
            });
        }
        DescriptorsOwed { owed, statuses }
    }

    fn charge<'p>(
        &'p self,
        number: u32,
        domain: Option<&Domain>,
        descriptor: &Descriptor<'_>,
        owed: &mut Owed<'p>,
    ) {
        let policy = self.policies().get(number as usize);
        let (Some(policy), Some(domain)) = (policy, domain) else { return };
        let subject = self.hasher.fingerprint(&Counted { domain, entries: descriptor.entries });
        for rule in policy.rules() {
            owed.push(number, Charge::new(subject, descriptor.cost, rule));
        }
    }
}

impl Domain {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn compile(
        file: &DomainFile,
        hasher: &KeyHasher,
        policies: &mut Vec<PlannedPolicy>,
        report: &mut Report<'_>,
    ) -> Self {
        let name = file.domain.value.clone();
        let mut compiler = Compiler { hasher, policies, report };
        let root = compiler.level(&file.descriptors, &name);
        Self { name, root }
    }
}

struct Compiler<'a, 's> {
    hasher: &'a KeyHasher,
    policies: &'a mut Vec<PlannedPolicy>,
    report: &'a mut Report<'s>,
}

impl Compiler<'_, '_> {
    fn level(&mut self, files: &[DescriptorFile], path: &str) -> Level {
        let mut level = Level::default();
        for file in files {
            let value = file.value.as_ref().map(|value| value.value.as_str());
            let path = match value {
                Some(value) => format!("{path}.{}_{value}", file.key.value),
                None => format!("{path}.{}", file.key.value),
            };
            let entry = Entry {
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

    fn limit(&mut self, file: &LimitOfFile, descriptor: &DescriptorFile, path: &str) -> EntryLimit {
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

    /// The path, or of a long one the beginning and a fingerprint.
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
            mode: if is_shadow { Mode::Shadow } else { Mode::Enforce },
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
            key_format: None,
            at_gateway: AtGateway::default(),
        })
    }
}

impl Branch {
    /// Whether there was none like it.
    fn insert(&mut self, value: Option<&str>, entry: Entry) -> bool {
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
    fn find(&self, value: &str) -> Option<(&Entry, Option<&str>)> {
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

impl Level {
    fn child(&self, (key, value): &(&str, &str)) -> Option<(&Entry, Option<&str>)> {
        self.0.get(*key)?.find(value)
    }

    /// The limit of the last entry. A request that goes deeper or less deep than the file has
    /// none.
    fn find(&self, entries: &[(&str, &str)]) -> Option<&EntryLimit> {
        let (last, path) = entries.split_last()?;
        let mut level = self;
        for entry in path {
            level = &level.child(entry)?.0.children;
        }
        level.child(last)?.0.limit.as_ref()
    }
}

/// What tells counters apart: every entry with its value, or with the wildcard where all of its
/// values share one counter.
struct Counted<'a> {
    domain: &'a Domain,
    entries: &'a [(&'a str, &'a str)],
}

impl Key for Counted<'_> {
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
