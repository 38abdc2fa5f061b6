//! Judges a history: does some execution of the rule explain it?

use std::collections::BTreeMap;

use tidegate_core::Span;

use crate::admission::impossible_admissions;
use crate::bounds::{UsageModel, usage_model};
use crate::checks::{broken_promises, wrong_answers};
use crate::cost_curve::WorkMeter;
use crate::evidence::{ChargeSuspicion, EvidenceOptions, KeyEvidence};
use crate::finding::{FindingKind, FindingProof, JudgeFinding};
use crate::history::{CallHistory, CallVerdict, JudgedCall};
use crate::rule::JudgedRule;
use crate::shrink::Counterexample;

/// A rule, and what else is known about the limiter.
///
/// ```
/// use tidegate_core::AlgorithmKind;
/// use tidegate_judge::{CallHistory, FindingKind, Judge, JudgedRule};
///
/// // Two are admitted within the same second; the rule is one a minute.
/// let history = r#"{"key": "a", "sent": 1000000, "received": 1000900, "allowed": true}
///                  {"key": "a", "sent": 1002000, "received": 1002900, "allowed": true}"#;
/// let mut history = CallHistory::read(history.as_bytes())?;
/// let rule = JudgedRule::new(AlgorithmKind::SlidingLog, &"1/minute".parse()?)?;
/// let judgement = Judge::new(rule).judge(&mut history);
/// assert_eq!(judgement.counts[&FindingKind::OverAdmission], 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// What the limiter promises.
    pub rule: JudgedRule,
    /// How much the limiter's clock can differ from the caller's, and how coarse it can be.
    pub clock_error: Span,
    /// Whether the keys can have been used before the first call.
    pub warm: bool,
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The rule.
    pub rule: JudgedRule,
    /// How many keys there are.
    pub keys: usize,
    /// How many calls were admitted.
    pub admitted: u64,
    /// How many were denied.
    pub denied: u64,
    /// How many got no answer.
    pub failed: u64,
    /// What the first of those said.
    pub first_error: Option<String>,
    /// How many answers are wrong, by what is wrong with them.
    pub counts: BTreeMap<FindingKind, u64>,
    /// The smallest evidence of each kind.
    pub counterexamples: Vec<Counterexample>,
    /// How many steps judging took: a measure of work that is the same in every run.
    pub steps: u64,
}

impl Judgement {
    /// Whether anything is wrong.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }
}

impl Judge {
    /// With a clock that is right to the millisecond, and keys that are new.
    pub const fn new(rule: JudgedRule) -> Self {
        Self { rule, clock_error: Span::from_millis(1), warm: false }
    }

    /// Judges all keys. Sorts their calls.
    pub fn judge(&self, history: &mut CallHistory) -> Judgement {
        let work = WorkMeter::default();
        let mut judgement = Judgement {
            rule: self.rule,
            keys: history.keys(),
            admitted: 0,
            denied: 0,
            failed: 0,
            first_error: None,
            counts: BTreeMap::new(),
            counterexamples: Vec::new(),
            steps: 0,
        };
        let mut keys = Vec::new();
        for (key, calls) in history.sorted() {
            calls.iter().for_each(|call| judgement.count(call));
            keys.push((key, calls, self.findings(calls, &work)));
        }
        let all = keys.iter().flat_map(|(.., found)| found);
        // Charged denials are an explanation only if they explain everything.
        let are_denials_charged = all.filter(|it| it.is_shortage()).all(|it| it.is_charged);
        let mut examples: BTreeMap<FindingKind, Vec<_>> = BTreeMap::new();
        for (key, calls, found) in keys {
            let mut seen = Vec::new();
            for mut finding in found {
                if finding.is_shortage() && are_denials_charged {
                    finding.kind = FindingKind::ChargedDenial;
                }
                *judgement.counts.entry(finding.kind).or_default() += 1;
                let kept = examples.entry(finding.kind).or_default();
                if kept.len() < MOST_TRIED && !seen.contains(&finding.kind) {
                    kept.push((key, calls, finding));
                    seen.push(finding.kind);
                }
            }
        }
        judgement.steps = work.steps();
        for kept in examples.into_values() {
            let shrunk = kept.into_iter().map(|(key, calls, it)| self.shrink(key, calls, it));
            judgement.counterexamples.extend(shrunk.min_by_key(|example| example.calls.len()));
        }
        judgement
    }

    /// Everything that is wrong with one key's calls, which are in the order in which they were sent.
    pub(crate) fn findings(&self, calls: &[JudgedCall], work: &WorkMeter) -> Vec<JudgeFinding> {
        let evidence = KeyEvidence::new(calls, self.options(ChargeSuspicion::AsPromised), work);
        let proof = FindingProof::NoPlacement;
        let impossible = impossible_admissions(&self.rule, &evidence).into_iter();
        let mut found: Vec<_> = impossible
            .map(|call| JudgeFinding::new(FindingKind::OverAdmission, call, proof))
            .collect();
        if let Some(model) = usage_model(&self.rule, &evidence, found.is_empty()) {
            let mut wrong = wrong_answers(&evidence, &*model, self.rule.capacity());
            self.suspect_denials(&mut wrong, calls, work);
            found.extend(wrong);
        }
        found.extend(broken_promises(&evidence));
        // The first proof of each kind is enough for a call.
        found.sort_by_key(|finding| (finding.call, finding.kind));
        found.dedup_by_key(|finding| (finding.call, finding.kind));
        found
    }

    const fn options(&self, suspicion: ChargeSuspicion) -> EvidenceOptions {
        let charged_before = if self.warm { self.rule.capacity() } else { 0 };
        let clock_error = self.clock_error.as_micros().cast_signed();
        EvidenceOptions { clock_error, charged_before, suspicion }
    }

    /// Marks findings that would be none if denied calls were charged.
    fn suspect_denials(&self, found: &mut [JudgeFinding], calls: &[JudgedCall], work: &WorkMeter) {
        if !found.iter().any(JudgeFinding::is_shortage) {
            return;
        }
        let evidence = KeyEvidence::new(calls, self.options(ChargeSuspicion::DeniedToo), work);
        let Some(model) = usage_model(&self.rule, &evidence, false) else { return };
        let denied = calls.iter().enumerate().filter(|(_, call)| call.is_denied());
        let first_denials: Vec<_> = denied.take(2).collect();
        for finding in found.iter_mut().filter(|finding| finding.is_shortage()) {
            let Some(call) = calls.get(finding.call) else { continue };
            let mut others = first_denials.iter().filter(|(index, _)| *index != finding.call);
            let is_after_denial = others.any(|(_, denial)| denial.sent <= call.received);
            finding.is_charged = is_after_denial && explained(call, finding, &*model);
        }
    }

    /// Deletes from the evidence of a finding what it does not need.
    fn shrink(&self, key: &str, calls: &[JudgedCall], finding: JudgeFinding) -> Counterexample {
        Counterexample::new(self, key, calls, finding)
    }
}

/// Whether a model that charges denied calls agrees with an answer.
fn explained(call: &JudgedCall, finding: &JudgeFinding, model: &dyn UsageModel) -> bool {
    let least = model.room(finding.call).least;
    match finding.proof {
        FindingProof::RoomAtLeast(_) => call.cost > least,
        FindingProof::Remaining { said, .. } => {
            let taken = if call.is_admitted() { call.cost } else { 0 };
            said >= least.saturating_sub(taken)
        }
        _ => false,
    }
}

impl Judgement {
    fn count(&mut self, call: &JudgedCall) {
        match &call.verdict {
            CallVerdict::Admitted => self.admitted += 1,
            CallVerdict::Denied => self.denied += 1,
            CallVerdict::Failed(error) => {
                self.failed += 1;
                self.first_error.get_or_insert_with(|| error.to_string());
            }
        }
    }
}

/// Of how many keys a finding is shrunk, to keep the smallest.
const MOST_TRIED: usize = 4;
