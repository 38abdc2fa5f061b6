//! The law: two requests that a witness serves alike were counted on the same counter, or one of
//! them was refused.

use std::collections::HashMap;
use std::fmt;

use crate::ledger::Counted;
use crate::request::Request;
use crate::witness::Account;

/// A policy, and the members of a witness's report that should determine its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clause {
    pub(crate) policy: &'static str,
    pub(crate) parts: &'static [&'static str],
}

pub(crate) const CLAUSES: &[Clause] = &[
    Clause { policy: "route", parts: &["route", "method"] },
    Clause { policy: "login", parts: &["route", "method"] },
    Clause { policy: "host", parts: &["host"] },
    Clause { policy: "key", parts: &["key"] },
    Clause { policy: "token", parts: &["bearer", "key"] },
    Clause { policy: "user", parts: &["user"] },
    Clause { policy: "session", parts: &["session"] },
];

/// A request that was served.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) request: Request,
    pub(crate) account: Account,
    pub(crate) counted: Counted,
}

/// Two requests that were served alike but counted on different counters.
#[derive(Clone, Debug)]
pub(crate) struct Counterexample {
    pub(crate) clause: Clause,
    pub(crate) first: Served,
    pub(crate) second: Served,
}

/// For each clause, the first request that was served in each way.
#[derive(Default)]
pub(crate) struct Law {
    known: HashMap<(Clause, Vec<String>), Served>,
}

impl Law {
    /// Every clause that this request breaks, each with an earlier request that was served alike.
    pub(crate) fn check(&mut self, served: &Served) -> Vec<Counterexample> {
        let mut broken = Vec::new();
        for clause in CLAUSES.iter().copied() {
            let way = (clause, served.account.parts(clause.parts));
            let first = self.known.entry(way).or_insert_with(|| served.clone());
            let counterexample =
                Counterexample { clause, first: first.clone(), second: served.clone() };
            broken.extend(counterexample.holds().then_some(counterexample));
        }
        broken
    }
}

impl Counterexample {
    pub(crate) fn holds(&self) -> bool {
        let Clause { policy, parts } = self.clause;
        let counter = |served: &Served| served.counted.get(policy).map(|(counter, _)| *counter);
        self.first.account.parts(parts) == self.second.account.parts(parts)
            && counter(&self.first) != counter(&self.second)
    }

    /// The length of both requests in bytes.
    pub(crate) fn size(&self) -> usize {
        self.first.request.bytes().len() + self.second.request.bytes().len()
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clause { policy, parts } = self.clause;
        writeln!(f, "served alike: {}", self.first.account.parts(parts).join(", "))?;
        for served in [&self.first, &self.second] {
            let caller = served.counted.get(policy).map_or("nobody", |(_, caller)| caller);
            writeln!(f, "  {policy} counted {caller}: {}", served.request.text())?;
        }
        Ok(())
    }
}
