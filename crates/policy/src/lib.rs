//! From names and keys to charges.
//!
//! A [`Policy`] has a name and some limits; a [`Key`] tells callers apart. Together with a cost
//! they make the charges that a store settles. Nothing here does I/O or reads a clock.
//!
//! ```
//! use tidegate_core::Cost;
//! use tidegate_policy::Policy;
//!
//! let policy = Policy::new("login", ["5/minute".parse()?, "20/hour".parse()?])?;
//! let charges = policy.charges(&("203.0.113.9", "alice"), Cost::ONE);
//! assert_eq!(charges.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod key;
mod policy;

pub use key::{Key, KeyHasher};
pub use policy::{Charges, Policy, PolicyError};
