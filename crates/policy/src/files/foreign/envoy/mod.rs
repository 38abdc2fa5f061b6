//! envoyproxy/ratelimit: a domain with nested descriptors, matched the way its own server does.

mod domain;
mod file;

use crate::files::attributes::PlanAttributes;
use crate::files::matcher::PolicyIndex;
use crate::files::plan::by_name;
use crate::files::problem::ProblemReport;
use crate::files::settings::PlanSettings;
use crate::files::yaml::YamlNode;
use crate::{KeyHasher, Plan};

pub(crate) use domain::EntryLimit;
pub use domain::EnvoyDomain;
pub(crate) use file::{EnvoyFile, EnvoyFileDescriptor, EnvoyFileLimit};

/// A plan whose policies are the descriptors that have a limit. Requests find them by descriptor
/// and never by attributes.
pub(crate) fn compile(
    root: &YamlNode,
    hasher: KeyHasher,
    report: &mut ProblemReport<'_>,
) -> Option<Plan> {
    let file = EnvoyFile::read(root, report)?;
    let mut policies = Vec::new();
    let domain = EnvoyDomain::compile(&file, &hasher, &mut policies, report);
    Some(Plan {
        by_name: by_name(&policies),
        policies,
        index: PolicyIndex::default(),
        attributes: PlanAttributes::default(),
        settings: PlanSettings::default(),
        hasher,
        domains: vec![domain],
        shows_keys: false,
        names_keys: false,
        sections: Vec::new(),
    })
}
