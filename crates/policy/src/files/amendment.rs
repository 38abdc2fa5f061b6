//! Temporary changes to a plan that are made at run time and stand in no file.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tidegate_core::Fingerprint;

use crate::files::compile::{self, OverrideContext};
use crate::files::nearest_name::nearest;
use crate::files::planned_policy::{LimitSet, PlannedPolicy};
use crate::files::problem::{FileProblem, FileProblems, ProblemReport, brief};
use crate::files::subject::KeyPart;
use crate::{KeyHasher, Plan, PolicyMode, PolicySource};

/// One change to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amendment {
    /// Other limits for one key, as in a policy's `overrides`, and with precedence over them.
    Override {
        /// The policy's name.
        policy: String,
        /// The key it applies to: `user=42`, or `tenant=a, user=42`.
        key: String,
        /// Quotas, or just `unlimited`.
        limits: Vec<String>,
    },
    /// Another mode for a policy.
    Mode {
        /// The policy's name.
        policy: String,
        /// The mode.
        mode: PolicyMode,
    },
}

impl Amendment {
    /// The policy that is changed.
    pub fn policy(&self) -> &str {
        match self {
            Self::Override { policy, .. } | Self::Mode { policy, .. } => policy,
        }
    }
}

/// A plan with changes applied, and the changes that were refused.
///
/// ```
/// use tidegate_core::Cost;
/// use tidegate_policy::{AmendedPlan, Amendment, KeyHasher, Plan, PolicySource};
///
/// let text = "policies: [{ name: api, key: [user], limits: [10/minute] }]";
/// let source = PolicySource::new("limits.yaml", text)?;
/// let more = Amendment::Override {
///     policy: "api".to_owned(),
///     key: "user=42".to_owned(),
///     limits: vec!["500/minute".to_owned()],
/// };
/// let AmendedPlan { plan, refused } =
///     Plan::compile_amended(KeyHasher::of_this_process(), &source, &[more])?;
/// assert!(refused.is_empty());
/// let charges = plan.charges(&[("user", "42")], Cost::ONE);
/// assert_eq!(charges.charges()[0].rule().limit.capacity(), 500);
/// # Ok::<(), tidegate_policy::FileProblems>(())
/// ```
#[derive(Debug)]
pub struct AmendedPlan {
    /// The plan.
    pub plan: Plan,
    /// Positions in the list of changes, and what is wrong with each.
    pub refused: Vec<(usize, FileProblems)>,
}

impl Plan {
    /// Checks a configuration, and changes to it. A file with problems is an error. A change with
    /// problems is left out, since the file may have been edited after the change was made.
    pub fn compile_amended(
        hasher: KeyHasher,
        source: &PolicySource,
        amendments: &[Amendment],
    ) -> Result<AmendedPlan, FileProblems> {
        let mut report = ProblemReport::new(source);
        let mut amending = PendingAmendments::new(amendments);
        let plan = compile::compile(hasher, &mut amending, &mut report);
        match plan {
            Some(mut plan) if report.is_clean() => {
                amending.add_overrides(&mut plan);
                amending.set_modes(&mut plan);
                Ok(AmendedPlan { plan, refused: amending.refused })
            }
            _ => Err(report.into_problems()),
        }
    }
}

impl Plan {
    /// The subject of an override of a policy, from its key as written: `user=42`.
    pub fn override_subject(&self, policy: &str, key: &str) -> Option<Fingerprint> {
        compile::subject_of(key, &self.policy(policy)?.key, &self.hasher)
    }
}

/// The changes that are being applied while a plan is compiled.
#[derive(Debug)]
pub(crate) struct PendingAmendments<'a> {
    list: &'a [Amendment],
    /// Positions of overrides, by policy.
    overrides: HashMap<&'a str, Vec<usize>>,
    /// Valid overrides, with their positions and policies. They are added only after the file has
    /// compiled without them: a change must not make a valid file fail.
    read: Vec<(usize, &'a str, CompiledOverrides)>,
    refused: Vec<(usize, FileProblems)>,
}

type CompiledOverrides = HashMap<Fingerprint, LimitSet, RandomState>;

impl<'a> PendingAmendments<'a> {
    fn new(list: &'a [Amendment]) -> Self {
        let mut overrides: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, amendment) in list.iter().enumerate() {
            if let Amendment::Override { policy, .. } = amendment {
                overrides.entry(policy).or_default().push(place);
            }
        }
        Self { list, overrides, read: Vec::new(), refused: Vec::new() }
    }

    /// Writes the overrides as YAML and compiles them, so that they follow the rules of a file.
    pub(crate) fn read_overrides(&mut self, key: &[KeyPart], context: &OverrideContext<'_>) {
        for place in self.overrides.remove(context.policy()).unwrap_or_default() {
            let Some(Amendment::Override { policy, key: subject, limits }) = self.list.get(place)
            else {
                continue;
            };
            let name = format!("override of {}", brief(policy));
            let compiled = PolicySource::new(name, as_yaml(subject, limits)).and_then(|source| {
                let mut report = ProblemReport::new(&source);
                let compiled = context.overrides(key, &mut report);
                if report.is_clean() { Ok(compiled) } else { Err(report.into_problems()) }
            });
            match compiled {
                Ok(compiled) => self.read.push((place, policy, compiled)),
                Err(problems) => self.refused.push((place, problems)),
            }
        }
    }

    fn add_overrides(&mut self, plan: &mut Plan) {
        for (place, policy, overrides) in std::mem::take(&mut self.read) {
            let number = plan.by_name.get(policy).copied();
            let Some(number) = number.and_then(|number| usize::try_from(number).ok()) else {
                continue;
            };
            if let Err(problem) = add_overrides(plan, number, overrides) {
                self.refuse(place, problem);
            }
        }
    }

    /// Applies modes, and refuses changes to policies that are unknown or cannot have overrides.
    fn set_modes(&mut self, plan: &mut Plan) {
        for (place, amendment) in self.list.iter().enumerate() {
            let name = amendment.policy();
            let number = plan.by_name.get(name).copied();
            let Some(number) = number.and_then(|number| usize::try_from(number).ok()) else {
                self.refuse(place, unknown(name, plan));
                continue;
            };
            match amendment {
                Amendment::Mode { mode, .. } => {
                    if let Err(problem) = set_mode(plan, number, *mode) {
                        self.refuse(place, problem);
                    }
                }
                // Not consumed while compiling: this file format has no key attributes.
                Amendment::Override { policy, .. } if self.overrides.contains_key(&**policy) => {
                    let problem = format!(
                        "policy {:?} has no key attributes, only descriptors: expected a policy \
                         with a \"key\"",
                        brief(policy)
                    );
                    self.refuse(place, problem);
                }
                Amendment::Override { .. } => {}
            }
        }
        self.refused.sort_by_key(|(place, _)| *place);
    }

    fn refuse(&mut self, place: usize, problem: String) {
        let name = match self.list.get(place) {
            Some(Amendment::Mode { .. }) => "mode",
            _ => "override",
        };
        self.refused.push((place, FileProblems::single(name, FileProblem::new(problem))));
    }
}

fn unknown(name: &str, plan: &Plan) -> String {
    let hint = nearest(name, plan.policies().iter().map(PlannedPolicy::name))
        .map(|near| format!("; did you mean {near:?}?"))
        .unwrap_or_default();
    format!("no policy {:?}{hint}", brief(name))
}

/// Adds overrides to a policy, unless the names of their keys could clash with another policy's.
fn add_overrides(plan: &mut Plan, number: usize, added: CompiledOverrides) -> Result<(), String> {
    let Some(policy) = plan.policies.get_mut(number) else { return Ok(()) };
    let known = compile::limit_names(policy);
    let before: Vec<_> = added
        .into_iter()
        .map(|(subject, limits)| (subject, policy.overrides.insert(subject, limits)))
        .collect();
    if compile::limit_names(policy) == known {
        return Ok(());
    }
    let Some(problem) = compile::shared_keys_of(&plan.policies, number) else { return Ok(()) };
    if let Some(policy) = plan.policies.get_mut(number) {
        for (subject, limits) in before {
            match limits {
                Some(limits) => policy.overrides.insert(subject, limits),
                None => policy.overrides.remove(&subject),
            };
        }
    }
    Err(problem)
}

/// Sets the mode, unless switching the policy on exceeds the maximum number of limits or lets two
/// policies share a key.
fn set_mode(plan: &mut Plan, number: usize, mode: PolicyMode) -> Result<(), String> {
    let Some(policy) = plan.policies.get_mut(number) else { return Ok(()) };
    let before = policy.mode;
    policy.set_mode(mode);
    if before != PolicyMode::Off {
        return Ok(());
    }
    let Some(problem) = mode_problem(plan, number) else { return Ok(()) };
    if let Some(policy) = plan.policies.get_mut(number) {
        policy.set_mode(before);
    }
    Err(problem)
}

/// Why a policy cannot be switched on in addition to the others.
fn mode_problem(plan: &Plan, number: usize) -> Option<String> {
    let (limits, most) = (compile::unconditional_limits(&plan.policies), Plan::MAX_CHARGES);
    if limits > most {
        let problem = "limits would apply to every request: expected at most";
        return Some(format!("{limits} {problem} {most}"));
    }
    compile::shared_keys_of(&plan.policies, number)
}

/// `{"user=42": ["500/minute"]}`, the way it is written in a file.
fn as_yaml(key: &str, limits: &[String]) -> String {
    let limits: Vec<String> = limits.iter().map(|limit| quoted(limit)).collect();
    format!("{{{}: [{}]}}", quoted(key), limits.join(", "))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
