//! A decision, together with the policies that it is about.

use tidegate::config::PlannedPolicy;
use tidegate::{Decision, Owed, Rule, Verdict};

/// What a client is told about.
pub(super) struct Answer<'a, 'p> {
    pub(super) owed: &'a Owed<'p>,
    pub(super) decision: &'a Decision,
}

/// A limit, whose it is, and what it says.
pub(super) struct Said<'a> {
    pub(super) policy: &'a str,
    pub(super) rule: &'a Rule,
    pub(super) verdict: &'a Verdict,
}

impl<'a, 'p> Answer<'a, 'p> {
    /// What each limit says, in the order of the file.
    pub(super) fn each(&self) -> impl Iterator<Item = Said<'a>> + use<'a, 'p> {
        let owed = self.owed;
        let both = owed.charges().iter().zip(self.decision.verdicts()).enumerate();
        both.map(move |(index, (charge, verdict))| Said {
            policy: owed.policy(index).map_or("", PlannedPolicy::name),
            rule: charge.rule(),
            verdict,
        })
    }

    /// The one that speaks for all.
    pub(super) fn tightest(&self) -> Option<Said<'a>> {
        self.decision.tightest_index().and_then(|index| self.each().nth(index))
    }

    /// The policy that speaks for all; the first one when none could say anything.
    pub(super) fn policy(&self) -> Option<&'a str> {
        let first = || self.owed.policy(0).map(PlannedPolicy::name);
        self.tightest().map(|said| said.policy).or_else(first)
    }

    /// The policies that a denied request has violated; all of them when none could say.
    pub(super) fn violated(&self) -> Vec<&'a str> {
        let denying = self.each().filter(|said| said.rule.enforced && !said.verdict.allowed);
        let mut names: Vec<_> = denying.map(|said| said.policy).collect();
        if names.is_empty() {
            let policies = (0..self.owed.charges().len()).filter_map(|n| self.owed.policy(n));
            names = policies.map(PlannedPolicy::name).collect();
        }
        names.dedup();
        names
    }
}
