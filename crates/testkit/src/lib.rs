#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "tests panic")]
//! Real servers for tests.
//!
//! - [`Redis`]: one server that can be killed, stopped and started again.
//! - [`Replicated`]: a primary with replicas, watched by sentinels.
//! - [`Cluster`]: primaries that share the slots, and can move them.
//! - [`Proxy`]: a connection that breaks in chosen ways.
//! - [`FakeRedis`]: a server with scripted replies, for those that a real one sends too rarely.
//! - [`RefusedFiles`]: files that a program refuses, each beside the message about it.
//! - [`fuzz`]: the corpora in `fuzz/`, and mutations of them.
//! - [`peer`]: third-party programs, which `scripts/peers` installs; [`Daemon`] runs one.
//!
//! Everything blocks, and everything panics with a readable message: it is for tests only. Whatever
//! a test starts ends when its value is dropped, and with the process at the latest.
//!
//! ```
//! use tidegate_testkit::{Redis, Reply};
//!
//! let redis = Redis::start();
//! redis.command(&["SET", "greeting", "hello"]);
//! assert_eq!(redis.command(&["GET", "greeting"]), Reply::bulk("hello"));
//! ```

mod accept_loop;
mod cluster;
mod fake;
mod fuzz;
mod link;
mod migration;
mod peer;
mod process;
mod proxy;
mod redis;
mod refused_files;
mod resp;
mod scratch;
mod sentinel;
mod setup;
mod slots;
mod wait;

pub use cluster::{Cluster, ClusterBuilder};
pub use fake::FakeRedis;
pub use fuzz::{Mutator, fuzz};
pub use migration::MigrationStep;
pub use peer::{Daemon, peer, peers, skipped};
pub use process::free_port;
pub use proxy::{Mode, Proxy};
pub use redis::Redis;
pub use refused_files::RefusedFiles;
pub use resp::{Connection, Reply, encode_command};
pub use scratch::Scratch;
pub use sentinel::{Replicated, ReplicatedBuilder};
pub use setup::RedisBuilder;
pub use slots::slot_of;
pub use wait::wait_until;
