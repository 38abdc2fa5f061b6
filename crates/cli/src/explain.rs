//! `tidegate explain FILE name=value ...`: which policies apply to a request, and why.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use tidegate::config::{
    Descriptor, DescriptorOutcome, LimitDescription, PlannedPolicy, PolicyExplanation, PolicyMatch,
    PolicyMode,
};
use tidegate::{Cost, Plan};

use crate::output::print;
use crate::source::read_source;
use crate::validate::{hints, print_problems};

/// The options of `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainCommand {
    /// The configuration; - is standard input
    file: PathBuf,
    /// The attributes of a request, such as user=42 path=/login; for an envoyproxy/ratelimit file,
    /// the entries of a descriptor, in order; put domain=NAME first if the domain is not the file's
    #[arg(value_name = "NAME=VALUE", value_parser = attribute)]
    attributes: Vec<(String, String)>,
}

impl ExplainCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let plan = match read_source(&self.file).and_then(|source| Plan::compile(&source)) {
            Ok(plan) => plan,
            Err(problems) => return Ok(print_problems(&problems)),
        };
        // The entries of a descriptor are a list and can repeat; attributes have one value.
        let twice = |(index, (name, _)): (usize, &(String, String))| {
            self.attributes[..index].iter().any(|(other, _)| other == name)
        };
        let repeated = self.attributes.iter().enumerate().find(|one| twice(*one));
        if let (Some((_, (name, _))), []) = (repeated, plan.domains()) {
            bail!("{name:?} is given twice: expected one value for each attribute");
        }
        let text = match plan.domains() {
            [] => explain(&plan, &self.attributes),
            _ => explain_descriptor(&plan, &self.attributes),
        };
        print(&(text + &hints(&plan)))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn attribute(text: &str) -> anyhow::Result<(String, String)> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| anyhow!("{text:?} has no \"=\": expected name=value"))?;
    if name.is_empty() {
        bail!("{text:?} has no name: expected name=value");
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn explain(plan: &Plan, request: &[(String, String)]) -> String {
    let mut text = String::new();
    let value = |name: &str| {
        let found = request.iter().find(|(other, _)| other == name);
        found.map_or_else(|| "absent".to_owned(), |(_, value)| format!("{value:?}"))
    };
    let explained = plan.explain(request);
    let applies = |one: &&PolicyExplanation<'_>| matches!(one.outcome, PolicyMatch::Applies { .. });
    let count = explained.iter().filter(applies).count();
    let policies = if explained.len() == 1 { "policy" } else { "policies" };
    let apply = if count == 1 || explained.len() == 1 { "applies" } else { "apply" };
    let _ = writeln!(text, "{count} of {} {policies} {apply}", explained.len());
    for PolicyExplanation { policy, outcome } in &explained {
        let name = policy.name();
        let _ = match outcome {
            PolicyMatch::Off => writeln!(text, "- {name}: switched off"),
            PolicyMatch::Missing(attribute) => {
                writeln!(text, "- {name}: does not match, there is no {attribute}")
            }
            PolicyMatch::Differs(attribute) => {
                writeln!(text, "- {name}: does not match, {attribute} is {}", value(attribute))
            }
            PolicyMatch::NoKey(attribute) => {
                writeln!(text, "- {name}: skipped, its key needs {attribute}")
            }
            PolicyMatch::Applies { key, origin, rules } => {
                let key: Vec<_> =
                    key.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let key = if key.is_empty() { "all together".to_owned() } else { key.join(", ") };
                let _ = writeln!(text, "+ {name} ({}) for {key}, from {origin}", policy.mode());
                let _ = limits(&mut text, rules);
                block(&mut text, policy)
            }
            _ => Ok(()),
        };
    }
    let unused = request.iter().filter(|(name, _)| !plan.attributes().any(|known| known == name));
    let mut has_unused = false;
    for (name, _) in unused {
        let _ = writeln!(text, "note: no policy uses {name}");
        has_unused = true;
    }
    if has_unused && count == 0 {
        let used: Vec<&str> = plan.attributes().take(MOST_ATTRIBUTES).collect();
        let _ = writeln!(text, "note: the policies use {}", used.join(", "));
    }
    text
}

/// For an envoyproxy/ratelimit file: the attributes, in order, are the entries of one descriptor. A
/// leading `domain` selects one domain; without it, every domain of the file is explained.
fn explain_descriptor(plan: &Plan, request: &[(String, String)]) -> String {
    let (wanted, entries) = match request.split_first() {
        Some(((name, domain), entries)) if name == "domain" => (Some(domain.as_str()), entries),
        _ => (None, request),
    };
    let entries: Vec<(&str, &str)> =
        entries.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let descriptor = Descriptor { entries: &entries, cost: Cost::ONE, limit: None };
    let mut text = String::new();
    for domain in plan.domains() {
        let name = domain.name();
        if let Some(wanted) = wanted.filter(|wanted| *wanted != name) {
            let _ = writeln!(text, "- {name}: does not match, domain is {wanted:?}");
            continue;
        }
        let found = plan.descriptor_charges(name, &[descriptor]);
        let _ = match found.statuses.first() {
            Some(DescriptorOutcome::Unlimited) => writeln!(text, "+ {name}: unlimited"),
            Some(DescriptorOutcome::Charged { first, .. }) => {
                let policy = found.charges.policy_name(*first).unwrap_or_default();
                let mode =
                    found.charges.policy(*first).map_or(PolicyMode::Enforce, PlannedPolicy::mode);
                let _ = writeln!(text, "+ {policy} ({mode}) for this descriptor in domain {name}");
                let rules = found.charges.charges().iter().map(|charge| *charge.rule());
                limits(&mut text, &rules.collect::<Vec<_>>())
            }
            _ => writeln!(text, "- {name}: no limit for this descriptor"),
        };
    }
    text
}

/// Enough to find a misspelt one.
const MOST_ATTRIBUTES: usize = 20;

fn block(text: &mut String, policy: &PlannedPolicy) -> std::fmt::Result {
    let Some(block) = policy.block() else { return Ok(()) };
    let span = block.rule.limit.period();
    writeln!(text, "    a denial blocks for {span}: everything is denied until then")
}

fn limits(text: &mut String, rules: &[tidegate::Rule]) -> std::fmt::Result {
    if rules.is_empty() {
        return writeln!(text, "    unlimited");
    }
    rules.iter().try_for_each(|rule| writeln!(text, "    {}", LimitDescription(&rule.limit)))
}
