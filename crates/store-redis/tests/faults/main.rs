//! A Redis that fails, in every way we know of: which errors callers get, and that service recovers
//! without intervention.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod acl;
mod cluster;
mod computed;
mod expiry;
mod failover;
mod migration;
mod odd_replies;
mod outage;
mod refusals;
mod runtimes;
mod scripts;
mod slow_replies;
#[path = "../support/mod.rs"]
mod support;
mod wrong_type;
