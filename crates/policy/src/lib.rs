//! From a policy file to a compiled plan, and from a request to its charges.
//!
//! A [`Source`] is what the user wrote; [`Plan::compile`] checks all of it once, and reports every
//! problem with its location. From then on nothing can fail: [`Plan::charges`] finds the policies
//! that apply to a request, and what it owes to each. Charges are what a store settles; nothing in
//! this crate knows about stores, or reads a clock. Applications depend on `tidegate`, which
//! re-exports what they need from here.
//!
//! A program that needs no file creates a [`Policy`], which has a name and some limits, and asks it
//! with a [`Key`]:
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

mod ad_hoc;
mod amend;
mod attributes;
mod compile;
mod cost;
mod descriptors;
mod explain;
mod file;
mod foreign;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
mod hasher;
mod hints;
mod key;
mod key_names;
mod matcher;
mod normalise;
mod owed;
mod owned_key;
mod plan;
mod planned;
mod policy;
mod problem;
mod requests;
mod schema;
mod secrets;
mod settings;
mod single_limit;
mod source;
mod subject;
mod suggest;
mod yaml;

pub use ad_hoc::AdHoc;
pub use amend::{Amended, Amendment};
pub use attributes::Attributes;
pub use cost::CostFault;
pub use descriptors::{Descriptor, DescriptorStatus, DescriptorsOwed};
pub use explain::{Described, Explained, Outcome};
pub use foreign::envoy::Domain;
pub use foreign::import::import;
pub use hasher::KeyHasher;
pub use key::{Key, key_as_text};
pub use normalise::{Address, Network, NoNetwork, path_in_normal_form};
pub use owed::Owed;
pub use owned_key::OwnedKey;
pub use plan::Plan;
pub use planned::{Block, PlannedPolicy};
pub use policy::{Charges, Policy, PolicyError};
pub use problem::{Place, Problem, Problems};
pub use requests::{PathParameters, RequestRules};
pub use schema::json_schema;
pub use settings::{LegacyHeaders, Mode, OnStoreError, PathCase, Precision, Settings};
pub use single_limit::SingleLimit;
pub use source::Source;
