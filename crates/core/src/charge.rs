//! Charges: one limit applied to one request, in numbers. Names are only for stores that need them.

use std::fmt;
use std::ops::BitXor;

use crate::{Cost, Limit, Span};

/// A 128-bit hash of a key or a counter, whatever the key's length.
///
/// One bit is always set, so that no key is ever [`Fingerprint::NONE`]: a table can use that value
/// to mark a vacant slot.
///
/// ```
/// use tidegate::Fingerprint;
///
/// let (subject, rule) = (Fingerprint::new(7, 9), Fingerprint::new(1, 2));
/// assert_eq!((subject ^ rule) ^ rule, subject);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint {
    high: u64,
    low: u64,
}

impl Fingerprint {
    /// The fingerprint of no key.
    pub const NONE: Self = Self { high: 0, low: 0 };

    /// Combines two independent halves. The top bit of `low` is always set.
    #[inline]
    pub const fn new(high: u64, low: u64) -> Self {
        Self { high, low: low | 1 << 63 }
    }

    /// The upper half.
    pub const fn high(self) -> u64 {
        self.high
    }

    /// The lower half.
    pub const fn low(self) -> u64 {
        self.low
    }

    /// The number of pools. A store in memory shares its space between them: see
    /// [`pool`](Fingerprint::pool).
    pub const POOLS: usize = 1 << 12;

    /// The pool of a rule with this id: twelve of its bits. Keys of one pool compete for space. Few
    /// rules rarely share a pool, unless it was [assigned](Self::with_pool).
    ///
    /// ```
    /// use tidegate_core::Fingerprint;
    ///
    /// let id = Fingerprint::new(1, 2).with_pool(7);
    /// assert_eq!(id.pool(), 7);
    /// assert_eq!(id.high(), 1); // nothing else has changed
    /// ```
    #[inline]
    pub const fn pool(self) -> u16 {
        (self.low >> POOL_AT) as u16 & POOL_BITS
    }

    /// The same fingerprint with another pool, of which only the lowest twelve bits count. Rules that
    /// callers can make up should share one pool.
    #[inline]
    #[must_use]
    pub const fn with_pool(self, pool: u16) -> Self {
        let others = self.low & !((POOL_BITS as u64) << POOL_AT);
        Self { low: others | ((pool & POOL_BITS) as u64) << POOL_AT, ..self }
    }
}

/// The position of the pool in the lower half: away from its ends, which tables and marks use.
const POOL_AT: u32 = 48;
const POOL_BITS: u16 = (Fingerprint::POOLS - 1) as u16;

/// Adds a salt. As long as salts are random, different pairs practically never collide in 128 bits.
impl BitXor for Fingerprint {
    type Output = Self;

    #[inline]
    fn bitxor(self, salt: Self) -> Self {
        Self::new(self.high ^ salt.high, self.low ^ salt.low)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}

/// A limit as one policy applies it.
///
/// Policies make rules once, when they are compiled, and charges borrow them: a rule is what all requests
/// under one limit have in common.
///
/// ```
/// use tidegate_core::{Fingerprint, Rule};
///
/// let id = Fingerprint::new(1, 2);
/// let rule = Rule { id, limit: "5/minute".parse()?, enforced: true, staggered: false };
/// // A larger quota under the same id finds what the smaller one has counted.
/// let raised = Rule { limit: "50/minute".parse()?, ..rule };
/// assert_eq!(rule.id, raised.id);
/// # Ok::<(), tidegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Distinguishes this rule's counters from every other rule's. It must change with whatever
    /// makes old counts meaningless (the algorithm, the window) and with nothing else, so that a
    /// new quota finds the old count.
    pub id: Fingerprint,
    /// The limit.
    pub limit: Limit,
    /// Whether a denial counts. A shadow limit is observed but never enforced.
    pub enforced: bool,
    /// Whether each key's windows begin at their own time, so that resets do not all happen at
    /// once.
    pub staggered: bool,
}

/// One limit applied to one request: a counter, a cost and a rule, for a store to settle.
///
/// Fingerprints are all that most stores need. But a store that shares keys with another limiter has
/// to use that limiter's key names, so a charge can refer to [names](ChargeNames):
///
/// ```
/// use tidegate::{Charge, ChargeNames, Cost, Fingerprint, Rule};
///
/// # let (subject, id) = (Fingerprint::new(1, 1), Fingerprint::new(2, 2));
/// let rule = Rule { id, limit: "5/minute".parse()?, enforced: true, staggered: false };
/// let charge = Charge::new(subject, Cost::ONE, &rule);
/// assert_eq!(charge.names(), None);
/// let names = ChargeNames::new("alice", "login").in_template("limits:{entity}:{limit}");
/// assert_eq!(charge.with_names(&names).names(), Some(&names));
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge<'a> {
    counter: Fingerprint,
    cost: Cost,
    rule: &'a Rule,
    names: Option<&'a ChargeNames>,
    policy: u32,
}

/// The names of a charge, for stores whose keys others read. They are kept beside the charges, since few
/// stores need them and charges are copied a lot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChargeNames {
    /// The caller's name. Equal subjects must have equal names, and different subjects different ones.
    pub entity: Option<String>,
    /// The limit's name. It must distinguish the limits of one subject.
    pub limit: Option<String>,
    /// How they become the name of a key.
    pub scheme: NameScheme,
}

/// How the key of a charge is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NameScheme {
    /// As the store names all of its keys.
    #[default]
    StoreDefault,
    /// By the store's own names, even if it has a template for all keys.
    Own,
    /// By a template: see [`KeyTemplate`](crate::KeyTemplate).
    Template(String),
}

impl ChargeNames {
    /// The names of a caller and of a limit.
    pub fn new(entity: impl Into<String>, limit: impl Into<String>) -> Self {
        let (entity, limit) = (Some(entity.into()), Some(limit.into()));
        Self { entity, limit, scheme: NameScheme::StoreDefault }
    }

    /// The same names in a key that is named by this template.
    #[must_use]
    pub fn in_template(self, template: impl Into<String>) -> Self {
        Self { scheme: NameScheme::Template(template.into()), ..self }
    }

    /// No names: the key is named by the store's own scheme.
    pub const fn own() -> &'static Self {
        static OWN: ChargeNames =
            ChargeNames { entity: None, limit: None, scheme: NameScheme::Own };
        &OWN
    }
}

impl<'a> Charge<'a> {
    /// The charge of `subject` under `rule`. The subject is the caller's fingerprint, and is the same
    /// for every limit of one policy.
    #[inline]
    pub fn new(subject: Fingerprint, cost: Cost, rule: &'a Rule) -> Self {
        Self { counter: subject ^ rule.id, cost, rule, names: None, policy: 0 }
    }

    /// Adds names, for stores that show names to others.
    #[inline]
    #[must_use]
    pub const fn with_names(self, names: &'a ChargeNames) -> Self {
        Self { names: Some(names), ..self }
    }

    /// The names, if it was given some.
    #[inline]
    pub const fn names(&self) -> Option<&'a ChargeNames> {
        self.names
    }

    /// Sets which of a request's policies it belongs to: the shadow limits of one policy and caller
    /// are settled together. Without a number, all charges belong to one policy.
    #[inline]
    #[must_use]
    pub const fn of_policy(self, number: u32) -> Self {
        Self { policy: number, ..self }
    }

    /// The number of its policy.
    #[inline]
    pub const fn policy(&self) -> u32 {
        self.policy
    }

    /// Whether both are shadow limits of one policy and caller.
    pub fn watches_with(&self, other: &Self) -> bool {
        let is_shadow = !self.rule.enforced && !other.rule.enforced;
        is_shadow && self.policy == other.policy && self.subject() == other.subject()
    }

    /// The same charge with another cost.
    #[inline]
    #[must_use]
    pub const fn with_cost(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }

    /// The same charge to a variant of its rule, which must have the same id.
    #[inline]
    #[must_use]
    pub const fn with_rule<'b>(self, rule: &'b Rule) -> Charge<'b>
    where
        'a: 'b,
    {
        Charge { rule, ..self }
    }

    /// The fingerprint of its counter.
    #[inline]
    pub const fn counter(&self) -> Fingerprint {
        self.counter
    }

    /// The caller's fingerprint.
    #[inline]
    pub fn subject(&self) -> Fingerprint {
        self.counter ^ self.rule.id
    }

    /// The units it takes.
    #[inline]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// The limit it is charged to.
    #[inline]
    pub const fn rule(&self) -> &'a Rule {
        self.rule
    }

    /// How far this key's clock runs ahead. All answers are relative, so running a key's clock
    /// ahead by a constant is the same as moving its windows.
    #[inline]
    pub fn phase(&self) -> Span {
        if !self.rule.staggered {
            return Span::ZERO;
        }
        let window = self.rule.limit.quota().window().as_micros();
        Span::from_micros(self.counter.high().checked_rem(window).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_twelve_bits_of_a_fingerprint_and_can_be_given() {
        let id = Fingerprint::new(7, 0xabcd_ef01_2345_6789);
        assert_eq!(id.pool(), 0xbcd);
        assert_eq!(id.with_pool(0xbcd), id);
        for pool in [0, 1, 0xfff] {
            assert_eq!(id.with_pool(pool).pool(), pool);
            assert_eq!(id.with_pool(pool).with_pool(0xbcd), id, "nothing else changes");
        }
        assert_eq!(id.with_pool(0x1fff), id.with_pool(0xfff));
        assert_ne!(Fingerprint::new(0, 0).with_pool(0), Fingerprint::NONE);
    }

    #[test]
    fn fingerprints_are_never_zero_and_salts_can_be_removed() {
        let [zero, one] = [Fingerprint::new(0, 0), Fingerprint::new(1, 1)];
        for (a, b) in [(zero, zero), (one, one), (zero, one)] {
            assert_ne!(a, Fingerprint::NONE);
            assert_ne!(a ^ b, Fingerprint::NONE);
            assert_eq!((a ^ b) ^ b, a);
        }
    }
}
