//! The service behind all transports: one limiter with its plan, and what operators see of it.

pub(crate) mod amendments;
mod app;
mod app_extension;
mod client_rights;
mod decisions;
pub(crate) mod example_request;
mod failed_logins;
mod instance_roster;
pub(crate) mod limit_names;
pub mod log;
pub(crate) mod metrics;
mod named_files;
pub(crate) mod policy_overflows;
mod reload;
pub(crate) mod top;
pub mod trace;
mod worker_stores;

pub use app::App;
pub use app_extension::AppExtension;
pub use client_rights::{ClientRight, ClientRights, ClientRightsError};
pub use example_request::example_request;
pub use instance_roster::InstanceRoster;
pub use metrics::{ListenerKind, MetricFamily, RefusalReason};
pub use named_files::NamedFiles;
pub use reload::{PlanReloader, ReloadAnswer, ReloadOutcome, ReloadRequest};
pub use worker_stores::WorkerStores;
