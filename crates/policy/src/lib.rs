//! From a policy file to a compiled plan, and from a request to its charges.
//!
//! A [`PolicySource`] is what the user wrote; [`Plan::compile`] checks all of it once, and reports every
//! problem with its location. From then on nothing can fail: [`Plan::charges`] finds the policies
//! that apply to a request, and its charges to each. A store settles charges; nothing in this crate
//! knows about stores or reads a clock. Applications depend on `tidegate`, which re-exports what
//! they need from here.
//!
//! A program that needs no file creates a [`Policy`], which has a name and some limits, and charges
//! a [`Key`] to it:
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
//!
//! The feature `files` adds files and plans, and with them a parser of YAML and a generator of JSON
//! Schema. Without it there are policies, keys and their hashers.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod hasher;
mod ip;
mod key;
mod owned_key;
mod policy;
mod store_terms;

#[cfg(feature = "files")]
mod files;
#[cfg(all(feature = "files", any(test, fuzzing)))]
#[doc(hidden)]
pub mod fuzzing;

pub use hasher::KeyHasher;
pub use ip::{IpAddress, IpNetwork, IpNetworkError};
pub use key::{Key, key_as_text};
pub use owned_key::OwnedKey;
pub use policy::{Policy, PolicyCharges, PolicyError};
pub use store_terms::{OnStoreError, Precision};

#[cfg(feature = "files")]
pub use files::{
    AdHocLimit, AmendedPlan, Amendment, Attributes, BlockPenalty, CostFault, Descriptor,
    DescriptorCharges, DescriptorOutcome, EnvoyDomain, FileProblem, FileProblems, LegacyHeaders,
    LimitDescription, PathCase, PathParameters, Plan, PlanSettings, PlannedPolicy,
    PolicyExplanation, PolicyMatch, PolicyMode, PolicySource, RequestCharges, RequestRules,
    SecretText, Sections, SingleLimit, SourceSpan, import, json_schema, path_in_normal_form,
    section,
};
