//! Compiles a configuration into a plan: everything is checked here, once.

mod choices;
mod conditions;
mod key;
mod key_format;
mod limits;
mod policy;
mod requests;
mod shared_keys;

use std::collections::HashMap;

use tidegate_core::{KeyTemplate, MAX_COUNT};

use crate::files::amendment::PendingAmendments;
use crate::files::attributes::PlanAttributes;
use crate::files::file::{ConfigFile, FileValue};
use crate::files::foreign::{self, FileFormat};
use crate::files::matcher::PolicyIndex;
use crate::files::plan::by_name;
use crate::files::problem::{ProblemReport, brief};
use crate::files::settings::PlanSettings;
use crate::files::yaml::{self, SourceValue};
use crate::section::SectionContext;
use crate::{KeyHasher, Plan, PlannedPolicy, PolicyMode};

pub(crate) use choices::PolicyDefaults;
pub use choices::{bounded_span, file_path, permille, secret_text};
pub(crate) use conditions::conditions as compile_conditions;
pub(crate) use key::{OverrideContext, subject_of};
pub use policy::units;
pub(crate) use policy::{compile_policy, is_caller_supplied};
pub use requests::rules_for_forwarding;
pub(crate) use shared_keys::{limit_names, problem_of as shared_keys_of};

/// Compiles the source of the report. The plan is valid only if the report is clean in the end.
pub(crate) fn compile(
    hasher: KeyHasher,
    amending: &mut PendingAmendments<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<Plan> {
    let root = yaml::parse(report)?;
    match FileFormat::of(&root) {
        FileFormat::Tidegate => {
            let file = ConfigFile::read(&root, report).unwrap_or_default();
            compile_config(&file, hasher, amending, report)
        }
        FileFormat::Rlaas => {
            compile_config(&foreign::rlaas::read(&root, report)?, hasher, amending, report).map(
                |plan| Plan { settings: PlanSettings { is_rlaas: true, ..plan.settings }, ..plan },
            )
        }
        FileFormat::Envoy => foreign::envoy::compile(&root, hasher, report),
        FileFormat::Limitador => {
            let hint = "this looks like a limitador file: see `tidegate import`";
            report.add(&root.at, hint);
            None
        }
    }
}

fn compile_config(
    file: &ConfigFile,
    hasher: KeyHasher,
    amending: &mut PendingAmendments<'_>,
    report: &mut ProblemReport<'_>,
) -> Option<Plan> {
    let key_format = file.key_format.as_ref().and_then(|text| key_format::read(text, report));
    let path_case = file.path_case.as_ref().map(|choice| choice.value);
    let mut compiler = PolicyCompiler {
        key_format,
        defaults: PolicyDefaults::compile(&file.defaults, report),
        attributes: PlanAttributes::new(path_case.unwrap_or_default()),
        hasher,
    };
    let settings = settings(file, &compiler, report);
    if file.policies.is_empty() && report.is_clean() {
        report.add(&(0..0), "no policy: expected at least one");
    }
    let most = Plan::MAX_POLICIES;
    if let Some(first) = file.policies.get(most) {
        report.add(&first.name.at, format!("too many policies: expected at most {most}"));
        return None;
    }
    let mut policies: Vec<_> = file
        .policies
        .iter()
        .map(|policy| compile_policy(policy, &mut compiler, amending, report))
        .collect();
    check_policies(file, &policies, &compiler, report);
    let context = SectionContext { attributes: &compiler.attributes };
    let sections = report.source().sections().iter();
    let sections = sections
        .filter_map(|section| section.compile_from(&file.sections, &context, report))
        .collect();
    let index = PolicyIndex::new(&mut policies);
    let (attributes, hasher) = (compiler.attributes, compiler.hasher);
    let by_name = by_name(&policies);
    Some(Plan {
        policies,
        by_name,
        index,
        attributes,
        settings,
        hasher,
        domains: Vec::new(),
        shows_keys: false,
        names_keys: false,
        sections,
    })
}

/// The settings besides the policies.
fn settings(
    file: &ConfigFile,
    compiler: &PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> PlanSettings {
    let password = file.store_password.as_ref();
    PlanSettings {
        store: file.store.as_ref().and_then(|store| choices::store(store, report)),
        store_password: password.and_then(|password| choices::secret_text(password, report)),
        store_deadline: Some(compiler.defaults.store_deadline),
        key_format: compiler.key_format.clone(),
        trusted_proxies: choices::networks(&file.trusted_proxies, report),
        legacy_headers: file.http.legacy_headers.as_ref().map(|choice| choice.value),
        requests: requests::rules_for_checks(file.http.requests.as_ref(), report),
        is_rlaas: false,
    }
}

/// Reports what only shows when all policies are known.
fn check_policies(
    file: &ConfigFile,
    policies: &[PlannedPolicy],
    compiler: &PolicyCompiler,
    report: &mut ProblemReport<'_>,
) {
    for (policy, file) in policies.iter().zip(&file.policies) {
        let at = file.key_format.as_ref().map_or(&file.name.at, |format| &format.at);
        key_format::check(policy, at, report);
    }
    shared_keys::check(policies, &file.policies, report);
    check_names(file, report);
    check_charge_count(file, policies, report);
    if compiler.attributes.len() > Plan::MAX_ATTRIBUTES {
        let (count, most) = (compiler.attributes.len(), Plan::MAX_ATTRIBUTES);
        report.add(&(0..0), format!("{count} different attributes: expected at most {most}"));
    }
}

/// The state that compiling every policy needs.
pub(crate) struct PolicyCompiler {
    pub(crate) defaults: PolicyDefaults,
    /// The template of policies without one of their own.
    pub(crate) key_format: Option<KeyTemplate>,
    pub(crate) attributes: PlanAttributes,
    pub(crate) hasher: KeyHasher,
}

/// Refuses two policies with the same name, which would share counters.
fn check_names(file: &ConfigFile, report: &mut ProblemReport<'_>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for policy in &file.policies {
        let name = &policy.name;
        if name.value.is_empty() {
            continue;
        }
        if let Some(first) = seen.get(name.value.as_str()) {
            let line = report.source().span_of(&(*first..*first)).line;
            let brief = crate::files::problem::brief(&name.value);
            let message = format!(
                "{brief:?} is the name of an earlier policy, on line {line}: expected another name"
            );
            report.add(&name.at, message);
        } else {
            seen.insert(&name.value, name.at.start);
        }
    }
}

/// Refuses too many policies without conditions: they apply together to every request that has their
/// attributes.
fn check_charge_count(
    file: &ConfigFile,
    policies: &[PlannedPolicy],
    report: &mut ProblemReport<'_>,
) {
    let limits = unconditional_limits(policies);
    let most = Plan::MAX_CHARGES;
    if limits > most {
        let at = file.policies.last().map_or(0..0, |policy| policy.name.at.clone());
        report.add(
            &at,
            format!("{limits} limits apply to every request: expected at most {most}; use match"),
        );
    }
}

/// The limits of policies that have no conditions and are not off.
pub(crate) fn unconditional_limits(policies: &[PlannedPolicy]) -> usize {
    let always =
        policies.iter().filter(|policy| policy.conditions.is_empty() && policy.indexed.is_none());
    let on = always.filter(|policy| policy.mode() != PolicyMode::Off);
    on.map(|policy| policy.rules().len()).sum()
}

/// Parses a whole number, or reports a problem.
pub fn whole(
    text: &SourceValue<String>,
    what: &str,
    report: &mut ProblemReport<'_>,
) -> Option<u64> {
    let number = count(&text.value);
    if number.is_none() {
        let brief = brief(&text.value);
        report.add(&text.at, format!("{brief:?}: expected {what}, a number of 0 to {MAX_COUNT}"));
    }
    number
}

/// A whole number of at most [`MAX_COUNT`], in which underscores may group the digits.
fn count(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { digits.parse().ok() } else { None };
    number.filter(|number| *number <= MAX_COUNT)
}
