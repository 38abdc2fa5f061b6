//! The admin listener: who may do what, and what it does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod access;
mod desk;
mod looks;
mod overrides;
#[path = "../support/mod.rs"]
mod support;
