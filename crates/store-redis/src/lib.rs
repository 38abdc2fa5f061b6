//! Rate-limit counters in Redis, shared by every instance and decided where they are stored.
//! Applications depend on `tidegate` with its feature `redis`, which re-exports this crate.
//!
//! ```no_run
//! use tidegate_store_redis::{RedisConfig, RedisStore};
//!
//! let config: RedisConfig = "redis://127.0.0.1:6379/0".parse()?;
//! let store = RedisStore::builder(config).secret("of this deployment").build();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod batch_call;
mod breaker;
mod builder;
mod charge_placement;
mod computed_call;
mod config;
mod deadline;
mod debug;
mod dispatcher;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod key_format;
mod key_name;
mod key_namer;
mod link;
mod message_pack;
mod queue;
mod recovery_probe;
mod rule;
mod script;
mod script_replay;
mod settlement;
mod shared_keys;
mod shared_settings;
mod slot;
mod store;
mod stored_state;
mod timed_answer;
mod url;
mod warm_up;

pub use builder::RedisStoreBuilder;
pub use config::RedisConfig;
pub use key_format::{KeyFormat, KeyFormatError};
pub use store::RedisStore;
pub use url::RedisUrlError;
