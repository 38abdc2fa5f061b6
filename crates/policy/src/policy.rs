//! A named set of limits on one kind of key.

use std::fmt;

use smallvec::SmallVec;
use tidegate_core::{CalendarPeriod, Charge, Cost, Fingerprint, Limit, Rule, Span};

use crate::{Key, KeyHasher};

/// The charges of one request. Up to four need no allocation.
pub type PolicyCharges<'a> = SmallVec<[Charge<'a>; 4]>;

/// Limits that apply together to each key: either all of them pass, or the request is denied.
///
/// ```
/// use tidegate::Policy;
///
/// let policy = Policy::new("api", ["100/minute burst 20".parse()?])?.shadowed();
/// assert_eq!(policy.name(), "api");
/// assert!(!policy.rules()[0].enforced);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    name: String,
    rules: Vec<Rule>,
    hasher: KeyHasher,
}

impl Policy {
    /// The most limits that a policy may have.
    pub const MAX_LIMITS: usize = 32;
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 128;

    /// Creates a policy. Its counters are identified by its name, algorithm and window: with another
    /// quota a policy finds its old counts in the same process; with another algorithm or window it
    /// starts afresh. So policies that share a store should not share a name.
    pub fn new(
        name: impl Into<String>,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Result<Self, PolicyError> {
        Self::with_hasher(KeyHasher::of_this_process(), name, limits)
    }

    /// Creates a policy under a secret other than this process's.
    pub fn with_hasher(
        hasher: KeyHasher,
        name: impl Into<String>,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Result<Self, PolicyError> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX_NAME {
            return Err(PolicyError::Name(name.len()));
        }
        let limits: Vec<Limit> = limits.into_iter().collect();
        if !(1..=Self::MAX_LIMITS).contains(&limits.len()) {
            return Err(PolicyError::Limits { policy: name, count: limits.len() });
        }
        let ids = hasher.unrelated();
        let rules = limits.iter().enumerate().map(|(index, limit)| {
            let twins = limits[..index].iter().filter(|other| kind(other) == kind(limit)).count();
            Rule {
                id: ids.fingerprint(&identity(&name, limit, twins)),
                limit: *limit,
                enforced: true,
                staggered: false,
            }
        });
        Ok(Self { rules: rules.collect(), name, hasher })
    }

    /// Observes without enforcing: there are verdicts, but every request passes.
    #[must_use]
    pub fn shadowed(self) -> Self {
        self.each_rule(|rule| rule.enforced = false)
    }

    /// Lets each key's windows begin at their own time, so that not all keys reset together.
    #[must_use]
    pub fn staggered(self) -> Self {
        self.each_rule(|rule| rule.staggered = true)
    }

    /// The policy's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its limits, in the order they were given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The charges of `key` for something that costs `cost`.
    pub fn charges<K: Key + ?Sized>(&self, key: &K, cost: Cost) -> PolicyCharges<'_> {
        let subject = self.hasher.fingerprint(key);
        self.rules.iter().map(|rule| Charge::new(subject, cost, rule)).collect()
    }

    /// The names of its limits in keys that others read, in the order of its rules. Of several limits
    /// with one window, all but the first have a number.
    #[doc(hidden)]
    pub fn limit_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for rule in &self.rules {
            let name = limit_name(&self.name, &self.rules, rule);
            let twins = (2..).map(|number| format!("{name}-{number}"));
            let free =
                std::iter::once(name.clone()).chain(twins).find(|name| !names.contains(name));
            names.push(free.unwrap_or(name));
        }
        names
    }

    /// The fingerprint that a key is charged by. It can replace the key later, when the key itself is
    /// no longer available.
    ///
    /// ```
    /// use tidegate::{Cost, Policy};
    ///
    /// let policy = Policy::new("api", ["5/minute".parse()?])?;
    /// let print = policy.fingerprint("alice");
    /// let [one, two] = [policy.charges(&print, Cost::ONE), policy.charges("alice", Cost::ONE)];
    /// assert_eq!(one[0].counter(), two[0].counter());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fingerprint<K: Key + ?Sized>(&self, key: &K) -> Fingerprint {
        self.hasher.fingerprint(key)
    }

    /// Calls `settle` with the same charges. A single one, the usual case, needs no list.
    #[inline]
    pub fn with_charges<K: Key + ?Sized, T>(
        &self,
        key: &K,
        cost: Cost,
        settle: impl FnOnce(&[Charge<'_>]) -> T,
    ) -> T {
        match &self.rules[..] {
            [rule] => settle(&[Charge::new(self.hasher.fingerprint(key), cost, rule)]),
            _ => settle(&self.charges(key, cost)),
        }
    }

    fn each_rule(mut self, change: impl FnMut(&mut Rule)) -> Self {
        self.rules.iter_mut().for_each(change);
        self
    }
}

/// Why a policy cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// No name, or a very long one.
    Name(usize),
    /// No limit, or very many.
    Limits {
        /// The policy's name.
        policy: String,
        /// The number of limits.
        count: usize,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(length) => {
                write!(f, "a policy name of {length} bytes: expected 1 to {}", Policy::MAX_NAME)
            }
            Self::Limits { policy, count } => {
                let most = Policy::MAX_LIMITS;
                write!(f, "policy {policy:?} has {count} limits: expected 1 to {most}")
            }
        }
    }
}

impl std::error::Error for PolicyError {}

/// The name of one of the rules of a policy that apply together.
pub(crate) fn limit_name(policy: &str, together: &[Rule], rule: &Rule) -> String {
    match together {
        [_] => policy.to_owned(),
        _ => format!("{policy}-{}", rule.limit.quota().window()),
    }
}

/// The algorithm and the window: if they change, old counts are meaningless. Calendar windows have
/// kinds of their own.
pub(crate) fn kind(limit: &Limit) -> (&'static str, Span) {
    let counts_by = limit.calendar().map_or(limit.kind().name(), CalendarPeriod::name);
    (counts_by, limit.quota().window())
}

/// What makes the counters of a rule its own.
pub(crate) fn identity<'a>(name: &'a str, limit: &Limit, twins: usize) -> impl Key + use<'a> {
    let (counts_by, window) = kind(limit);
    (name, counts_by, window.as_micros(), twins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn policy(limits: &[&str]) -> Policy {
        Policy::new("p", limits.iter().map(|limit| limit.parse().unwrap())).unwrap()
    }

    #[test]
    fn every_limit_has_counters_of_its_own() {
        let policy = policy(&["5/minute", "9/minute", "5/hour", "5/minute burst 5"]);
        let charges = policy.charges("alice", Cost::ONE);
        let counters: HashSet<_> = charges.iter().map(Charge::counter).collect();
        assert_eq!(counters.len(), 4);
    }

    #[test]
    fn only_what_makes_counts_meaningless_changes_the_counter() {
        let counter = |limit: &str| policy(&[limit]).charges("alice", Cost::ONE)[0].counter();
        assert_eq!(counter("5/minute"), counter("500/minute"));
        assert_ne!(counter("5/minute"), counter("5/hour"));
        assert_ne!(counter("5/minute"), counter("5/minute burst 1"));
    }

    #[test]
    fn what_cannot_be_a_policy_is_refused() {
        let limit: Limit = "5/minute".parse().unwrap();
        let error = Policy::new("", [limit]).unwrap_err();
        assert_eq!(error.to_string(), "a policy name of 0 bytes: expected 1 to 128");
        let error = Policy::new("p", []).unwrap_err();
        assert_eq!(error.to_string(), "policy \"p\" has 0 limits: expected 1 to 32");
        assert!(Policy::new("p", vec![limit; 33]).is_err());
        assert!(Policy::new("p".repeat(129), [limit]).is_err());
    }

    #[test]
    fn staggered_windows_begin_at_different_times() {
        let policy = policy(&["5/minute"]).staggered();
        let phases: HashSet<_> =
            (0..100_u32).map(|key| policy.charges(&key, Cost::ONE)[0].phase()).collect();
        assert!(phases.len() > 90);
        assert!(phases.iter().all(|phase| *phase < Span::from_secs(60)));
    }
}
