//! What was found, and why it is certain.

use std::fmt;

use crate::history::JudgedCall;
use crate::rule::JudgedRule;

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// It was admitted, and the rule had no room for it.
    OverAdmission,
    /// It was denied, and the rule had room for it.
    FalseDenial,
    /// Denied, or told that less was left, because denied calls had been charged.
    ChargedDenial,
    /// More or less was left than it said.
    WrongRemaining,
    /// The wait that it stated was too short or too long.
    WrongRetryAfter,
}

impl FindingKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::OverAdmission,
        Self::FalseDenial,
        Self::ChargedDenial,
        Self::WrongRemaining,
        Self::WrongRetryAfter,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OverAdmission => "over-admission",
            Self::FalseDenial => "false denial",
            Self::ChargedDenial => "charged denial",
            Self::WrongRemaining => "wrong remaining",
            Self::WrongRetryAfter => "wrong retry_after",
        }
    }

    /// What it means.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::OverAdmission => {
                "admitted, although the rule had no room, whatever happened when"
            }
            Self::FalseDenial => "denied, although the rule had room, whatever happened when",
            Self::ChargedDenial => {
                "less room than the rule has, explained by denied calls that were charged"
            }
            Self::WrongRemaining => "said that more or less was left than can have been",
            Self::WrongRetryAfter => "said to wait for less or for more time than was needed",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JudgeFinding {
    /// What is wrong.
    pub(crate) kind: FindingKind,
    /// Which of the key's calls it is, in the order in which they were sent.
    pub(crate) call: usize,
    /// Why it is certain.
    pub(crate) proof: FindingProof,
    /// Whether charges of denied calls would explain it.
    pub(crate) is_charged: bool,
}

impl JudgeFinding {
    pub(crate) const fn new(kind: FindingKind, call: usize, proof: FindingProof) -> Self {
        Self { kind, call, proof, is_charged: false }
    }

    /// Whether the limiter had less room than the rule has.
    pub(crate) const fn is_shortage(&self) -> bool {
        let kind = matches!(self.kind, FindingKind::FalseDenial | FindingKind::WrongRemaining);
        kind && !self.proof.is_excess()
    }
}

/// Why an answer is wrong. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindingProof {
    /// The admitted calls cannot all be placed within their spans.
    NoPlacement,
    /// So much room there was at most before the call.
    RoomAtMost(u64),
    /// So much room there was at least before the call.
    RoomAtLeast(u64),
    /// It said that `said` was left.
    Remaining {
        /// What it said.
        said: u64,
        /// What was left at least.
        least: u64,
        /// What was left at most.
        most: u64,
    },
    /// It said to wait for `said`.
    Wait {
        /// What it said.
        said: i64,
        /// The shortest wait that can have been needed.
        least: i64,
        /// The longest.
        most: Option<i64>,
    },
    /// An earlier denial said to wait for `said`; nothing was admitted since, and it was denied again.
    WaitedInVain {
        /// The earlier denial.
        denial: usize,
        /// What it said.
        said: i64,
    },
}

impl FindingProof {
    /// Whether too much was given, and not too little. Calls can then be left out of the evidence:
    /// fewer charges would leave even more room.
    pub(crate) const fn is_excess(&self) -> bool {
        match self {
            Self::NoPlacement | Self::RoomAtMost(_) => true,
            Self::RoomAtLeast(_) | Self::WaitedInVain { .. } => false,
            Self::Remaining { said, most, .. } => *said > *most,
            Self::Wait { said, least, .. } => *said < *least,
        }
    }

    /// The proof in a sentence.
    pub(crate) fn sentence(&self, rule: &JudgedRule, evidence: &[JudgedCall], cost: u64) -> String {
        match *self {
            Self::NoPlacement => no_placement(rule, evidence),
            Self::RoomAtMost(most) => {
                format!("a cost of {cost} was admitted when at most {most} was left")
            }
            Self::RoomAtLeast(least) => {
                format!("a cost of {cost} was denied when at least {least} was left")
            }
            Self::Remaining { said, least, most } => {
                format!("it said that {said} was left; it was {}", between(least, most))
            }
            Self::Wait { said, least, most } => {
                let longest = most.map_or("any time".to_owned(), seconds);
                format!(
                    "it said to wait for {}; needed were {} to {longest}",
                    seconds(said),
                    seconds(least)
                )
            }
            Self::WaitedInVain { said, .. } => format!(
                "a denial said to wait for {}; nothing was admitted since, and after that wait the same \
                 cost or less was denied again",
                seconds(said)
            ),
        }
    }
}

fn between(least: u64, most: u64) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// Microseconds, for people.
#[allow(clippy::float_arithmetic, reason = "seconds, for people")]
pub(crate) fn seconds(micros: i64) -> String {
    let text = format!("{:.6}", micros as f64 / 1e6);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

fn no_placement(rule: &JudgedRule, evidence: &[JudgedCall]) -> String {
    let admitted = || evidence.iter().filter(|call| call.is_admitted());
    let units: u128 = admitted().map(|call| u128::from(call.cost)).sum();
    let first = admitted().map(|call| call.sent).min().unwrap_or(0);
    let span = admitted().map(|call| call.received).max().unwrap_or(0) - first;
    let most = rule.most_within(span).filter(|most| u128::from(*most) < units);
    match most {
        Some(most) => {
            format!("{units} were admitted within {}; the rule admits {most}", seconds(span))
        }
        None => format!(
            "{units} were admitted within {}, and no order of them keeps to the rule",
            seconds(span)
        ),
    }
}
