//! What a store looks like in a log: one line, however many counters it has.

use std::fmt;

use super::MemoryStore;

/// The number of keys, and how many there can be.
///
/// ```
/// use tidegate::MemoryStore;
///
/// let store = MemoryStore::builder().max_keys(1_000).build();
/// assert!(format!("{store:?}").starts_with("MemoryStore { keys: 0, max_keys: "));
/// ```
impl<C> fmt::Debug for MemoryStore<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.capacity.keys())
            .field("max_keys", &self.capacity.max_keys())
            .finish_non_exhaustive()
    }
}
