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

mod ad_hoc_limit;
mod amendment;
mod attributes;
mod compile;
mod cost;
mod descriptors;
mod explanation;
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
mod nearest_name;
mod normalise;
mod owned_key;
mod plan;
mod planned_policy;
mod policy;
mod problem;
mod request_charges;
mod requests;
mod schema;
mod secrets;
mod section;
mod settings;
mod single_limit;
mod source;
mod subject;
mod yaml;

pub use ad_hoc_limit::AdHocLimit;
pub use amendment::{AmendedPlan, Amendment};
pub use attributes::Attributes;
pub use cost::CostFault;
pub use descriptors::{Descriptor, DescriptorCharges, DescriptorOutcome};
pub use explanation::{LimitDescription, PolicyExplanation, PolicyMatch};
pub use foreign::envoy::EnvoyDomain;
pub use foreign::import::import;
pub use hasher::KeyHasher;
pub use key::{Key, key_as_text};
pub use normalise::{IpAddress, IpNetwork, IpNetworkError, path_in_normal_form};
pub use owned_key::OwnedKey;
pub use plan::Plan;
pub use planned_policy::{BlockPenalty, PlannedPolicy};
pub use policy::{Policy, PolicyCharges, PolicyError};
pub use problem::{FileProblem, FileProblems, SourceSpan};
pub use request_charges::RequestCharges;
pub use requests::{PathParameters, RequestRules};
pub use schema::json_schema;
pub use settings::{LegacyHeaders, OnStoreError, PathCase, PlanSettings, PolicyMode, Precision};
pub use single_limit::SingleLimit;
pub use source::PolicySource;
