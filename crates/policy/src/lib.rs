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

#[cfg(feature = "files")]
mod ad_hoc_limit;
#[cfg(feature = "files")]
mod amendment;
#[cfg(feature = "files")]
mod attributes;
#[cfg(feature = "files")]
mod compile;
#[cfg(feature = "files")]
mod cost;
#[cfg(feature = "files")]
mod descriptors;
#[cfg(feature = "files")]
mod explanation;
#[cfg(feature = "files")]
mod file;
#[cfg(feature = "files")]
mod foreign;
#[cfg(all(feature = "files", any(test, fuzzing)))]
#[doc(hidden)]
pub mod fuzzing;
mod hasher;
#[cfg(feature = "files")]
mod hints;
mod ip;
mod key;
#[cfg(feature = "files")]
mod key_names;
#[cfg(feature = "files")]
mod matcher;
#[cfg(feature = "files")]
mod nearest_name;
#[cfg(feature = "files")]
mod normalise;
mod owned_key;
#[cfg(feature = "files")]
mod plan;
#[cfg(feature = "files")]
mod planned_policy;
mod policy;
#[cfg(feature = "files")]
mod problem;
#[cfg(feature = "files")]
mod request_charges;
#[cfg(feature = "files")]
mod requests;
#[cfg(feature = "files")]
mod schema;
#[cfg(feature = "files")]
mod secret_names;
#[cfg(feature = "files")]
mod secret_text;
#[cfg(feature = "files")]
mod secrets;
#[cfg(feature = "files")]
pub mod section;
#[cfg(feature = "files")]
mod settings;
#[cfg(feature = "files")]
mod single_limit;
#[cfg(feature = "files")]
mod source;
mod store_terms;
#[cfg(feature = "files")]
mod subject;
#[cfg(feature = "files")]
mod yaml;

#[cfg(feature = "files")]
pub use ad_hoc_limit::AdHocLimit;
#[cfg(feature = "files")]
pub use amendment::{AmendedPlan, Amendment};
#[cfg(feature = "files")]
pub use attributes::Attributes;
#[cfg(feature = "files")]
pub use cost::CostFault;
#[cfg(feature = "files")]
pub use descriptors::{Descriptor, DescriptorCharges, DescriptorOutcome};
#[cfg(feature = "files")]
pub use explanation::{LimitDescription, PolicyExplanation, PolicyMatch};
#[cfg(feature = "files")]
pub use foreign::envoy::EnvoyDomain;
#[cfg(feature = "files")]
pub use foreign::import::import;
pub use hasher::KeyHasher;
pub use ip::{IpAddress, IpNetwork, IpNetworkError};
pub use key::{Key, key_as_text};
#[cfg(feature = "files")]
pub use normalise::path_in_normal_form;
pub use owned_key::OwnedKey;
#[cfg(feature = "files")]
pub use plan::Plan;
#[cfg(feature = "files")]
pub use planned_policy::{BlockPenalty, PlannedPolicy};
pub use policy::{Policy, PolicyCharges, PolicyError};
#[cfg(feature = "files")]
pub use problem::{FileProblem, FileProblems, SourceSpan};
#[cfg(feature = "files")]
pub use request_charges::RequestCharges;
#[cfg(feature = "files")]
pub use requests::{PathParameters, RequestRules};
#[cfg(feature = "files")]
pub use schema::json_schema;
#[cfg(feature = "files")]
pub use secret_text::SecretText;
#[cfg(feature = "files")]
pub use section::Sections;
#[cfg(feature = "files")]
pub use settings::{LegacyHeaders, PathCase, PlanSettings, PolicyMode};
#[cfg(feature = "files")]
pub use single_limit::SingleLimit;
#[cfg(feature = "files")]
pub use source::PolicySource;
pub use store_terms::{OnStoreError, Precision};
