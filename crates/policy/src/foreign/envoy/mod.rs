//! envoyproxy/ratelimit: a domain with nested descriptors, matched the way its own server does.

mod domain;
mod read;

use crate::attributes::Known;
use crate::matcher::Index;
use crate::plan::by_name;
use crate::problem::Report;
use crate::settings::Settings;
use crate::yaml::Node;
use crate::{KeyHasher, Plan};

pub use domain::Domain;
pub(crate) use domain::EntryLimit;
pub(crate) use read::{DescriptorFile, DomainFile, LimitOfFile};

/// A plan whose policies are the descriptors that have a limit. Requests find them by descriptor
/// and never by attributes.
pub(crate) fn compile(root: &Node, hasher: KeyHasher, report: &mut Report<'_>) -> Option<Plan> {
    let file = DomainFile::read(root, report)?;
    let mut policies = Vec::new();
    let domain = Domain::compile(&file, &hasher, &mut policies, report);
    Some(Plan {
        by_name: by_name(&policies),
        policies,
        index: Index::default(),
        known: Known::default(),
        settings: Settings::default(),
        hasher,
        domains: vec![domain],
        shows_keys: false,
        names_keys: false,
        gateway: None,
    })
}
