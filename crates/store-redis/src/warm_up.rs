//! Connects before the first decision, for programs that would rather not start without Redis.

use tidegate_core::Fingerprint;
use tidegate_store::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;

use crate::recovery_probe::PATIENCE;
use crate::{RedisStore, RedisStoreBuilder};

impl RedisStoreBuilder {
    /// [Builds](Self::build) the store, connects, and lets Redis decide once, without affecting any client.
    ///
    /// A program that connects at its start learns of a wrong address, a wrong password or missing rights at
    /// once, and its first decisions do not compete with connecting. A program that should start without Redis
    /// uses [`build`](Self::build).
    ///
    /// # Errors
    ///
    /// [`StoreError`] if Redis cannot be reached, or does not decide.
    ///
    /// ```
    /// use tidegate::{RedisConfig, RedisStore, StoreErrorKind};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config: RedisConfig = "redis://127.0.0.1:1".parse()?;
    /// let error = RedisStore::builder(config).connect().await.unwrap_err();
    /// assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(self) -> Result<RedisStore, StoreError> {
        let store = self.build();
        store.warm_up().await?;
        Ok(store)
    }
}

impl RedisStore {
    /// Makes the connections and lets Redis decide once, without affecting any client. See
    /// [`RedisStoreBuilder::connect`].
    ///
    /// On a Cluster, one node answers for all of them.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if Redis cannot be reached, or does not decide.
    pub async fn warm_up(&self) -> Result<(), StoreError> {
        require_runtime()?;
        let (dispatcher, link) = (&self.dispatcher, self.link());
        let Some(request) = self.naming.probe(Fingerprint::NONE) else { return Ok(()) };
        let place = dispatcher.slot_of(&request);
        let call = dispatcher.probe_call(place.subject);
        // Connecting has its own time limit, within this one.
        let patience = self.config().connect_timeout + PATIENCE;
        for lane in 0..link.lanes() {
            link.probe(place.slot, lane, &call, patience).await?;
        }
        Ok(())
    }
}

/// Refuses callers outside of a runtime, which would panic otherwise: connections and timers are tokio's.
pub(crate) fn require_runtime() -> Result<(), StoreError> {
    Handle::try_current().map(|_| ()).map_err(|_| {
        let message = "there is no tokio runtime on this thread, and connections to Redis need one: call \
             from an async task, or use Limiter::check_blocking";
        StoreError::new(StoreErrorKind::Misconfigured, message)
    })
}
