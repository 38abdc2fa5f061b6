//! Recovery. One fault opens the breaker, and before it is over another one takes away the store's
//! connections: then only the probe can find out that Redis is well again.
//!
//! A table of first and second faults for each deployment. In every cell, two stores as two workers
//! of a server have them must decide again, all of their connections, soon after a client of our
//! own can write to the deployment.
//!
//! Left out: a lone Redis is never promoted, and with Sentinel or on a Cluster, a primary whose
//! address has moved is one that was promoted elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod cluster;
mod faults;
mod measurement;
mod sentinel;
mod standalone;
#[path = "../support/mod.rs"]
mod support;
