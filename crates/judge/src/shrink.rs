//! The smallest evidence of a finding.

use crate::cost_curve::WorkMeter;
use crate::finding::{FindingKind, FindingProof, JudgeFinding};
use crate::history::JudgedCall;
use crate::judge::Judge;

/// Calls that cannot be explained, and as few of them as could be found.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is wrong.
    pub kind: FindingKind,
    /// The key of the calls.
    pub key: String,
    /// Why it is certain, in a sentence.
    pub sentence: String,
    /// The calls, in the order in which they were sent.
    pub calls: Vec<JudgedCall>,
    /// Which of them has the wrong answer.
    pub wrong: usize,
}

impl Counterexample {
    pub(crate) fn new(
        judge: &Judge,
        key: &str,
        calls: &[JudgedCall],
        finding: JudgeFinding,
    ) -> Self {
        let kept = match finding.proof {
            FindingProof::WaitedInVain { denial, .. } => vec![denial, finding.call],
            proof if proof.is_excess() => fewest(judge, calls, finding),
            _ => still_counting(judge, calls, finding),
        };
        let wrong = kept.iter().position(|index| *index == finding.call);
        let kept = pick(calls, &kept);
        let cost = calls.get(finding.call).map_or(0, |call| call.cost);
        let sentence = finding.proof.sentence(&judge.rule, &kept, cost);
        let (kind, key) = (finding.kind, key.to_owned());
        Self { kind, key, sentence, wrong: wrong.unwrap_or(kept.len().max(1) - 1), calls: kept }
    }
}

fn pick(calls: &[JudgedCall], kept: &[usize]) -> Vec<JudgedCall> {
    kept.iter().filter_map(|index| calls.get(*index)).cloned().collect()
}

/// Whether these calls alone show the same. With too much admitted, any call may be left out: what
/// remains would have had even more room.
fn shows(judge: &Judge, calls: &[JudgedCall], kept: &[usize], kind: FindingKind) -> bool {
    let found = judge.findings(&pick(calls, kept), &WorkMeter::default());
    found.iter().any(|finding| finding.kind == kind && finding.proof.is_excess())
}

fn fewest(judge: &Judge, calls: &[JudgedCall], finding: JudgeFinding) -> Vec<usize> {
    let received = calls.get(finding.call).map_or(0, |call| call.received);
    let is_needed = |(index, call): &(usize, &JudgedCall)| {
        *index == finding.call || (call.is_admitted() && call.sent <= received && call.cost > 0)
    };
    let all: Vec<usize> =
        calls.iter().enumerate().filter(is_needed).map(|(index, _)| index).collect();
    let still = |kept: &[usize]| shows(judge, calls, kept, finding.kind);
    if !still(&all) {
        return all;
    }
    // The shortest end of the history that shows it.
    let (mut too_few, mut enough) = (all.len(), 0);
    while too_few > enough + 1 {
        let middle = enough.midpoint(too_few);
        let end = all.get(middle..).unwrap_or_default();
        if still(end) { enough = middle } else { too_few = middle }
    }
    let mut kept = all.get(enough..).unwrap_or_default().to_vec();
    let (mut chunk, mut budget) = (kept.len() / 2, MOST_WORK);
    while chunk > 0 && budget > 0 {
        let mut start = 0;
        while start < kept.len() && budget > 0 {
            let without: Vec<usize> =
                kept.iter().take(start).chain(kept.iter().skip(start + chunk)).copied().collect();
            budget = budget.saturating_sub(kept.len() + 1);
            if still(&without) { kept = without } else { start += chunk }
        }
        chunk /= 2;
    }
    kept
}

/// With too little room, no call that can still have counted may be left out.
fn still_counting(judge: &Judge, calls: &[JudgedCall], finding: JudgeFinding) -> Vec<usize> {
    let Some(wrong) = calls.get(finding.call) else { return Vec::new() };
    let error = judge.clock_error.as_micros().cast_signed();
    let since = wrong.sent - judge.rule.period() - 2 * error;
    let counts = |call: &JudgedCall| {
        let is_charge = !call.is_denied() || finding.kind == FindingKind::ChargedDenial;
        let is_over = call.received < since && (call.is_admitted() || call.is_denied());
        is_charge && call.cost > 0 && !is_over && call.sent <= wrong.received + 2 * error
    };
    let kept = calls.iter().enumerate();
    let kept = kept.filter(|(index, call)| *index == finding.call || counts(call));
    kept.map(|(index, _)| index).collect()
}

/// How many calls are judged at most to shrink one finding.
const MOST_WORK: usize = 3_000_000;
