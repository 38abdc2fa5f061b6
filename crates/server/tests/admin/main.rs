//! The admin listener: who can do what, and what the actions do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod access;
mod admin_server;
mod counters;
mod overrides;
#[path = "../support/mod.rs"]
mod support;
