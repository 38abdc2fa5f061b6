//! Stores: where the counters are kept.
//!
//! A [`Store`] owns both the states and the clock, and has one important verb: it *settles* a list
//! of charges, all or nothing. [`MemoryStore`] is the embedded one: sharded, bounded, and without a
//! background thread. Applications depend on `tidegate`, which re-exports all of this.
//!
//! ```
//! use tidegate_core::{Charge, Cost, Fingerprint, Rule};
//! use tidegate_store::{LocalStore, ManualClock, MemoryStore, Verdicts};
//!
//! let clock = ManualClock::default();
//! let store = MemoryStore::builder().clock(clock.clone()).build();
//!
//! let limit = "1/minute".parse()?;
//! let rule = Rule { id: Fingerprint::new(1, 1), limit, enforced: true, staggered: false };
//! let charge = Charge::new(Fingerprint::new(2, 2), Cost::ONE, &rule);
//!
//! let mut verdicts = Verdicts::new();
//! assert!(store.settle_now(&[charge], &mut verdicts));
//! assert!(!store.settle_now(&[charge], &mut verdicts));
//! clock.advance(verdicts[1].retry_after.unwrap());
//! assert!(store.settle_now(&[charge], &mut verdicts));
//! # Ok::<(), tidegate_core::QuotaError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod blocking;
mod clock;
mod error;
mod memory;
mod promise;
mod shared_settings;
mod store;
mod sync;
mod verdicts;

pub use blocking::BlockingGuard;
pub use clock::{Clock, ManualClock, Stopwatch, SystemClock};
pub use error::{StoreError, StoreErrorKind};
pub use memory::{MemoryStats, MemoryStore, MemoryStoreBuilder};
pub use promise::{Promise, PromiseFuture};
pub use shared_settings::{SettingEntry, SettingsSnapshot, SharedSettings};
pub use store::{LocalStore, SettleResult, Store, StoreHealth, StoreProfile, StoreUsage};
pub use verdicts::{VerdictIter, Verdicts};
