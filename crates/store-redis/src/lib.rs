//! Counters in Redis: shared by every instance, and decided where they are stored. Applications
//! depend on `tidegate` with its feature `redis`, which re-exports this crate.
//!
//! ```no_run
//! use tidegate_store_redis::{RedisConfig, RedisStore};
//!
//! let config: RedisConfig = "redis://127.0.0.1:6379/0".parse()?;
//! let store = RedisStore::builder(config).secret("of this deployment").build();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answering;
mod apart;
mod batch;
mod board;
mod breaker;
mod builder;
mod config;
mod courier;
mod deadline;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod key_format;
mod link;
mod naming;
mod pack;
mod parcel;
mod plain;
mod probe;
mod queue;
mod replay;
mod rule;
mod script;
mod slot;
mod state;
mod store;
mod url;

pub use builder::RedisStoreBuilder;
pub use config::RedisConfig;
pub use key_format::{KeyFormat, KeyFormatError};
pub use store::RedisStore;
pub use url::RedisUrlError;
