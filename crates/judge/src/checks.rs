//! Compares each answer with what the rule makes of the evidence.

use crate::bounds::{RoomBounds, UsageModel};
use crate::evidence::KeyEvidence;
use crate::finding::{FindingKind, FindingProof, JudgeFinding};
use crate::history::JudgedCall;

/// Everything that is wrong with the answers of single calls.
pub(crate) fn wrong_answers(
    evidence: &KeyEvidence<'_>,
    model: &dyn UsageModel,
    capacity: u64,
) -> Vec<JudgeFinding> {
    let mut found = Vec::new();
    for (index, call) in evidence.calls.iter().enumerate() {
        if !call.is_admitted() && !call.is_denied() {
            continue;
        }
        let room = model.room(index);
        let verdict = wrong_verdict(call, room);
        // Of a denial that should not be, the wait is wrong anyway.
        let wait = verdict.is_none().then(|| wrong_wait(call, model, index, capacity)).flatten();
        let wrong = verdict.into_iter().chain(wrong_remaining(call, room)).chain(wait);
        found.extend(wrong.map(|(kind, proof)| JudgeFinding::new(kind, index, proof)));
    }
    found
}

type WrongPart = (FindingKind, FindingProof);

fn wrong_verdict(call: &JudgedCall, room: RoomBounds) -> Option<WrongPart> {
    if call.is_admitted() && call.cost > room.most {
        Some((FindingKind::OverAdmission, FindingProof::RoomAtMost(room.most)))
    } else if call.is_denied() && call.cost <= room.least && call.cost > 0 {
        Some((FindingKind::FalseDenial, FindingProof::RoomAtLeast(room.least)))
    } else {
        None
    }
}

/// After an admission, its own cost is gone too.
fn wrong_remaining(call: &JudgedCall, room: RoomBounds) -> Option<WrongPart> {
    let said = call.remaining?;
    let taken = if call.is_admitted() { call.cost } else { 0 };
    let (least, most) = (room.least.saturating_sub(taken), room.most.saturating_sub(taken));
    let proof = FindingProof::Remaining { said, least, most };
    // An admission without room is another finding.
    let is_judged = taken <= room.most;
    (is_judged && !(least..=most).contains(&said)).then_some((FindingKind::WrongRemaining, proof))
}

fn wrong_wait(
    call: &JudgedCall,
    model: &dyn UsageModel,
    index: usize,
    capacity: u64,
) -> Option<WrongPart> {
    let said = call.retry_after.filter(|_| call.is_denied() && call.cost <= capacity)?;
    let needed = model.wait(index);
    let is_short = said.micros < needed.least;
    // A limiter may round up, and a wait of 0 makes no sense after a denial.
    let longest = needed.most.map(|most| most.max(1).saturating_add(said.rounding));
    let is_long = longest.is_some_and(|longest| said.micros > longest);
    let proof = FindingProof::Wait { said: said.micros, least: needed.least, most: needed.most };
    (is_short || is_long).then_some((FindingKind::WrongRetryAfter, proof))
}

/// Denials after a wait that the limiter itself had stated, with nothing admitted in between. This
/// holds whatever the rule is.
pub(crate) fn broken_promises(evidence: &KeyEvidence<'_>) -> Vec<JudgeFinding> {
    let mut promises: Vec<WaitPromise> = Vec::new();
    let mut found = Vec::new();
    let KeyEvidence { possible, work, .. } = evidence;
    for (index, call) in evidence.calls.iter().enumerate().filter(|(_, call)| call.is_denied()) {
        let (earliest, latest) = (evidence.earliest(index), evidence.latest(index));
        // Whoever can have been charged since then excuses the denial.
        let charged = possible.begun.up_to(work, latest) - evidence.own(index);
        promises.retain(|promise| charged == possible.ended.before(work, promise.since));
        let broken = promises.iter().find(|it| it.until <= earliest && it.cost >= call.cost);
        if let Some(promise) = broken.filter(|_| call.cost > 0) {
            let proof = FindingProof::WaitedInVain { denial: promise.denial, said: promise.said };
            found.push(JudgeFinding::new(FindingKind::WrongRetryAfter, index, proof));
        }
        if let Some(wait) = call.retry_after {
            let until = latest.saturating_add(wait.micros);
            // What promises more, and earlier, replaces what promises less.
            promises.retain(|it| it.until < until || it.cost > call.cost);
            if promises.len() < MOST_PROMISES {
                let (said, cost) = (wait.micros, call.cost);
                promises.push(WaitPromise { denial: index, since: earliest, until, said, cost });
            }
        }
    }
    found
}

/// What a denial said: from `until` on, this cost passes, if nothing else comes.
#[derive(Clone, Copy, Debug)]
struct WaitPromise {
    denial: usize,
    since: i64,
    until: i64,
    said: i64,
    cost: u64,
}

const MOST_PROMISES: usize = 16;
