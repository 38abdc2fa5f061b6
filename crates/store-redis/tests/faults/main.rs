//! A Redis that fails, in every way we know of: what callers are told, and that service recovers by
//! itself.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod acl;
mod cluster;
mod distance;
mod expiry;
mod failover;
mod fakes;
mod migration;
mod outage;
mod refusals;
mod runtimes;
mod scripts;
#[path = "../support/mod.rs"]
mod support;
mod wrong_type;
