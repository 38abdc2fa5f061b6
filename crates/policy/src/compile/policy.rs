//! One policy.

use tidegate_core::{AlgorithmKind, Cost, Limit, Quota, Span};

use super::limits::{Context, limit_set};
use super::{Compiler, choices, conditions, key, whole};
use crate::file::{CostFile, PolicyFile};
use crate::planned::{Block, CostSource, LimitSet, PlannedPolicy, Tier};
use crate::policy::block_rule;
use crate::problem::{Report, brief};
use crate::settings::{Mode, Precision};
use crate::yaml::Spot;
use crate::{KeyHasher, Policy};

/// `None` only for a policy without a usable name; other problems leave something to check on.
pub(crate) fn compile_policy(
    file: &PolicyFile,
    compiler: &mut Compiler,
    report: &mut Report<'_>,
) -> Option<PlannedPolicy> {
    check_name(&file.name, report)?;
    let mode = file.mode.as_ref().and_then(|name| choices::mode(name, report)).unwrap_or_default();
    let hasher = compiler.hasher.clone();
    let context = context(file, mode, compiler, &hasher, report);
    let key = key::key(&file.key, compiler, report);
    let overrides = key::overrides(&file.overrides, &key, &context, report);
    let tiers = tiers(file, &context, compiler, report);
    let limits = match &file.limits {
        Some(limits) => limit_set(limits, &context, report).unwrap_or(LimitSet::Unlimited),
        None => LimitSet::Unlimited,
    };
    let policy = PlannedPolicy {
        name: file.name.value.clone(),
        mode,
        conditions: conditions::conditions(&file.condition, compiler, report),
        key,
        cost: cost(file.cost.as_ref(), compiler, report),
        limits,
        tiers,
        overrides,
        block: block(file, mode, &hasher, report),
        on_store_error: file
            .on_store_error
            .as_ref()
            .and_then(|name| choices::on_store_error(name, report))
            .unwrap_or(compiler.defaults.on_store_error),
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
        key_format: file.key_format.as_ref().and_then(|text| choices::key_format(text, report)),
    };
    check_lease(file, &policy, report);
    Some(policy)
}

fn context<'a>(
    file: &'a PolicyFile,
    mode: Mode,
    compiler: &Compiler,
    hasher: &'a KeyHasher,
    report: &mut Report<'_>,
) -> Context<'a> {
    Context {
        name: &file.name.value,
        hasher,
        algorithm: file.algorithm.as_ref().and_then(|name| choices::algorithm(name, report)),
        default: compiler.defaults.algorithm,
        counts_denied: file.count_denied.as_ref().is_some_and(|flag| flag.value),
        is_staggered: file.stagger.as_ref().is_some_and(|flag| flag.value),
        is_shadow: mode == Mode::Shadow,
    }
}

/// Names are shown in headers, metrics and logs.
fn check_name(name: &Spot<String>, report: &mut Report<'_>) -> Option<()> {
    if name.value.is_empty() && name.at.is_empty() {
        // There is none, and that was said.
        return None;
    }
    let most = Policy::MAX_NAME;
    if name.value.is_empty() || name.value.len() > most || name.value.contains(char::is_control) {
        let value = brief(&name.value);
        let expected = format!("a name of 1 to {most} bytes without control characters");
        report.add(&name.at, format!("{value:?}: expected {expected}"));
        return None;
    }
    Some(())
}

fn tiers(
    file: &PolicyFile,
    context: &Context<'_>,
    compiler: &mut Compiler,
    report: &mut Report<'_>,
) -> Vec<Tier> {
    if let Some(first) = file.tiers.get(MAX_TIERS).and_then(|tier| tier.limits.first()) {
        report.add(&first.at, format!("too many tiers: expected at most {MAX_TIERS}"));
        return Vec::new();
    }
    let tier = |tier: &crate::file::Tier| {
        let when = conditions::conditions(&tier.when, compiler, report);
        let limits = limit_set(&tier.limits, context, report)?;
        Some(Tier { when, limits })
    };
    file.tiers.iter().filter_map(tier).collect()
}

fn cost(file: Option<&CostFile>, compiler: &mut Compiler, report: &mut Report<'_>) -> CostSource {
    let units = |text: &Spot<String>, report: &mut Report<'_>| {
        let units = whole(text, "a cost", report).filter(|units| *units > 0);
        if units.is_none() && text.value == "0" {
            report.add(&text.at, "a cost of 0 would limit nothing: expected at least 1");
        }
        units.and_then(|units| Cost::new(units).ok()).unwrap_or(Cost::ONE)
    };
    match file {
        None => CostSource::Fixed(Cost::ONE),
        Some(CostFile::Fixed(text)) => CostSource::Fixed(units(text, report)),
        Some(CostFile::From(fields)) => {
            let default = fields.default.as_ref().map_or(Cost::ONE, |text| units(text, report));
            match conditions::attribute(&fields.attribute, compiler, report) {
                Some(attribute) => CostSource::Attribute { attribute, default },
                None => CostSource::Fixed(Cost::ONE),
            }
        }
    }
}

/// One unit in every span, as an exact log: a denial takes it, and whoever finds it taken is
/// blocked until it comes back.
fn block(
    file: &PolicyFile,
    mode: Mode,
    hasher: &KeyHasher,
    report: &mut Report<'_>,
) -> Option<Block> {
    let span: Span = choices::block_for(file.block_for.as_ref()?, report)?;
    let limit = Quota::new(1, span).and_then(|quota| Limit::new(AlgorithmKind::SlidingLog, &quota));
    let rule = block_rule(hasher, &file.name.value, limit.ok()?, mode == Mode::Enforce);
    Some(Block { span, rule })
}

/// A lease of a small quota would be all of it.
fn check_lease(file: &PolicyFile, policy: &PlannedPolicy, report: &mut Report<'_>) {
    let (Precision::Leased { .. }, Some(precision)) = (policy.precision, &file.precision) else {
        return;
    };
    let too_small = |limit: &u64| *limit < MIN_LEASED;
    let limits = policy.rules().iter().map(|rule| rule.limit.quota().limit());
    if let Some(limit) = limits.filter(|limit| *limit > 0).find(too_small) {
        let least = format!("expected limits of at least {MIN_LEASED}");
        report.add(&precision.at, format!("a quota of {limit} is too small to lease: {least}"));
    }
}

const MAX_TIERS: usize = 100;
const MIN_LEASED: u64 = 20;
