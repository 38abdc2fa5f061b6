//! Compiles one policy.

use tidegate_core::{AlgorithmKind, Cost, Limit, Quota, Rule, Span};

use super::limits::{LimitContext, limit_set};
use super::{PolicyCompiler, choices, conditions, key, key_format, whole};
use crate::files::amendment::PendingAmendments;
use crate::files::cost::CostSource;
use crate::files::file::{FileCost, FileCostFields, FilePolicy};
use crate::files::planned_policy::{BlockPenalty, LimitSet, PlannedPolicy, PlannedTier};
use crate::files::problem::{ProblemReport, brief};
use crate::files::settings::{PolicyMode, Precision};
use crate::files::yaml::SourceValue;
use crate::section::{CompiledSection, PolicyEntries};
use crate::{KeyHasher, Policy};

/// Compiles a policy. Of a policy with problems, the rest is checked all the same.
pub(crate) fn compile_policy(
    file: &FilePolicy,
    compiler: &mut PolicyCompiler,
    amending: &mut PendingAmendments<'_>,
    report: &mut ProblemReport<'_>,
) -> PlannedPolicy {
    let name = name(&file.name, report);
    let mode = file.mode.as_ref().map(|choice| choice.value).unwrap_or_default();
    let hasher = compiler.hasher.clone();
    let context = context(name, file, mode, compiler, &hasher, report);
    let key = key::key(&file.key, compiler, report);
    let overrides = key::overrides(&file.overrides, &key, &context, report);
    let key_names = key_format::names(file.key_format.as_ref(), compiler, report);
    let amended = key::OverrideContext { limits: &context, template: key_names.template() };
    amending.read_overrides(&key, &amended);
    let tiers = tiers(file, &context, compiler, report);
    let limits = match &file.limits {
        Some(limits) => limit_set(limits, &context, report).unwrap_or(LimitSet::Unlimited),
        None => LimitSet::Unlimited,
    };
    let mut policy = PlannedPolicy {
        name: name.to_owned(),
        mode,
        indexed: None,
        conditions: conditions::conditions(&file.condition, &mut compiler.attributes, report),
        key,
        cost: cost(file.cost.as_ref(), compiler, report),
        limits,
        tiers,
        overrides,
        block: block(name, file, mode, &hasher, report),
        on_store_error: file
            .on_store_error
            .as_ref()
            .map_or(compiler.defaults.on_store_error, |choice| choice.value),
        store_deadline: file
            .store_deadline
            .as_ref()
            .and_then(|text| choices::deadline(text, report))
            .unwrap_or(compiler.defaults.store_deadline),
        precision: file
            .precision
            .as_ref()
            .and_then(|text| choices::precision(text, report))
            .unwrap_or(compiler.defaults.precision),
        key_names,
        is_counted_later: cost_entries(file).is_some(),
        sections: Vec::new(),
    };
    policy.sections = sections(file, &policy, compiler, report);
    check_lease(file, &policy, report);
    policy
}

fn context<'a>(
    name: &'a str,
    file: &FilePolicy,
    mode: PolicyMode,
    compiler: &PolicyCompiler,
    hasher: &'a KeyHasher,
    report: &mut ProblemReport<'_>,
) -> LimitContext<'a> {
    LimitContext {
        name,
        hasher,
        algorithm: file.algorithm.as_ref().map(|choice| choice.value),
        default: compiler.defaults.algorithm,
        steps: file.steps.as_ref().and_then(|steps| super::limits::steps(steps, report)),
        counts_denied: file.count_denied.as_ref().is_some_and(|flag| flag.value),
        is_staggered: file.stagger.as_ref().is_some_and(|flag| flag.value),
        is_shadow: mode == PolicyMode::Shadow,
    }
}

/// Names appear in headers, metrics and logs. A policy without a valid name gets a placeholder while
/// the rest of it is checked.
fn name<'f>(name: &'f SourceValue<String>, report: &mut ProblemReport<'_>) -> &'f str {
    let most = Policy::MAX_NAME;
    let is_name = (1..=most).contains(&name.value.len()) && !name.value.contains(char::is_control);
    // A missing name has been reported already.
    if !is_name && !name.at.is_empty() {
        let value = brief(&name.value);
        let expected = format!("a name of 1 to {most} bytes without control characters");
        report.add(&name.at, format!("{value:?}: expected {expected}"));
    }
    if is_name { &name.value } else { "unnamed" }
}

fn tiers(
    file: &FilePolicy,
    context: &LimitContext<'_>,
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> Vec<PlannedTier> {
    if let Some(first) = file.tiers.get(MAX_TIERS).and_then(|tier| tier.limits.first()) {
        report.add(&first.at, format!("too many tiers: expected at most {MAX_TIERS}"));
        return Vec::new();
    }
    let tier = |tier: &crate::files::file::FileTier| {
        let when = conditions::conditions(&tier.when, &mut compiler.attributes, report);
        let limits = limit_set(&tier.limits, context, report)?;
        Some(PlannedTier { when, limits })
    };
    file.tiers.iter().filter_map(tier).collect()
}

/// The least that a request costs. Callers that choose their own cost would otherwise choose zero.
fn min_cost(
    name: &SourceValue<String>,
    min: Option<&SourceValue<String>>,
    report: &mut ProblemReport<'_>,
) -> Cost {
    match min {
        None if is_caller_supplied(&name.value) => Cost::ONE,
        None => Cost::PEEK,
        Some(text) => {
            let units = whole(text, "a cost", report);
            units.and_then(|units| Cost::new(units).ok()).unwrap_or(Cost::PEEK)
        }
    }
}

/// Whether callers choose the value of an attribute freely.
pub(crate) fn is_caller_supplied(attribute: &str) -> bool {
    ["query:", "header:", "cookie:"].iter().any(|prefix| attribute.starts_with(prefix))
}

/// The fields of its cost that belong to sections, if it has any.
fn cost_entries(file: &FilePolicy) -> Option<&FileCostFields> {
    match &file.cost {
        Some(FileCost::From(fields)) if !fields.sections.is_empty() => Some(fields),
        _ => None,
    }
}

/// What the sections of the program keep of a policy.
fn sections(
    file: &FilePolicy,
    policy: &PlannedPolicy,
    compiler: &PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> Vec<CompiledSection> {
    let all = report.source().sections();
    if all.is_empty() {
        return Vec::new();
    }
    let conditions =
        policy.conditions.iter().chain(policy.tiers.iter().flat_map(|tier| &tier.when));
    let mut attributes: Vec<&str> =
        conditions.map(|condition| compiler.attributes.name(condition.attribute)).collect();
    attributes.extend(policy.key());
    if let CostSource::Attribute { name, .. } = &policy.cost {
        attributes.push(name);
    }
    let cost = cost_entries(file);
    let entries = PolicyEntries {
        policy: &file.sections,
        cost: cost.map(|cost| &cost.sections[..]).unwrap_or_default(),
        cost_default: cost.and_then(|cost| cost.default.as_ref()),
        attributes: &attributes,
    };
    all.iter().filter_map(|section| section.compile_policy_from(&entries, report)).collect()
}

/// The cost before the request is forwarded. A cost that the response determines is one until then.
fn cost(
    file: Option<&FileCost>,
    compiler: &mut PolicyCompiler,
    report: &mut ProblemReport<'_>,
) -> CostSource {
    match file {
        None => CostSource::Fixed(Cost::ONE),
        Some(FileCost::Fixed(text)) => CostSource::Fixed(units(text, report)),
        Some(FileCost::From(fields)) => {
            let Some(name) = &fields.attribute else {
                if let Some(min) = &fields.min {
                    report.add(&min.at, "\"min\" applies only to an attribute: expected none here");
                }
                return CostSource::Fixed(Cost::ONE);
            };
            let min = min_cost(name, fields.min.as_ref(), report);
            let default = fields.default.as_ref().map_or(Cost::ONE.max(min), |text| {
                let default = units(text, report);
                if default < min {
                    let (units, least) = (default.get(), min.get());
                    report.add(
                        &text.at,
                        format!("{units} is less than \"min\": expected at least {least}"),
                    );
                }
                default
            });
            match conditions::attribute(name, &mut compiler.attributes, report) {
                Some(attribute) => {
                    let name = name.value.as_str().into();
                    CostSource::Attribute { attribute, name, default, min }
                }
                None => CostSource::Fixed(Cost::ONE),
            }
        }
    }
}

/// A cost of at least one unit.
pub fn units(text: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Cost {
    let units = whole(text, "a cost", report).filter(|units| *units > 0);
    if units.is_none() && text.value == "0" {
        report.add(&text.at, "a cost of 0 would limit nothing: expected at least 1");
    }
    units.and_then(|units| Cost::new(units).ok()).unwrap_or(Cost::ONE)
}

/// One unit in every span, as an exact log: a denial takes the unit, and the caller is blocked until
/// the unit is back.
fn block(
    name: &str,
    file: &FilePolicy,
    mode: PolicyMode,
    hasher: &KeyHasher,
    report: &mut ProblemReport<'_>,
) -> Option<BlockPenalty> {
    let span: Span = choices::block_for(file.block_for.as_ref()?, report)?;
    let limit = Quota::new(1, span).and_then(|quota| Limit::new(AlgorithmKind::SlidingLog, &quota));
    let rule = block_rule(hasher, name, limit.ok()?, mode == PolicyMode::Enforce);
    Some(BlockPenalty { span, rule })
}

/// The rule that keeps track of the callers that a policy blocks.
fn block_rule(hasher: &KeyHasher, policy: &str, limit: Limit, enforced: bool) -> Rule {
    let window = limit.quota().window().as_micros();
    let id = hasher.unrelated().fingerprint(&(policy, "block", window, 0_usize));
    Rule { id, limit, enforced, staggered: false }
}

/// Refuses to lease a small quota: a lease would be all of it.
fn check_lease(file: &FilePolicy, policy: &PlannedPolicy, report: &mut ProblemReport<'_>) {
    let (Precision::Leased { .. }, Some(precision)) = (policy.precision, &file.precision) else {
        return;
    };
    let too_small = |limit: &u64| *limit < Precision::MIN_LEASED;
    let limits = policy.rules().iter().map(|rule| rule.limit.quota().limit());
    if let Some(limit) = limits.filter(|limit| *limit > 0).find(too_small) {
        let least = format!("expected limits of at least {}", Precision::MIN_LEASED);
        report.add(&precision.at, format!("a quota of {limit} is too small to lease: {least}"));
    }
}

const MAX_TIERS: usize = 100;
