//! Watches whether Redis may drop counters: it can be told to while it runs.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Store, StoreErrorKind};
use tidegate_server::App;
use tidegate_server::log::{self, LogLevel};

/// Logs when the store has been set to drop counters, and when it has been set not to.
pub(super) async fn log_eviction_changes<S: Store + 'static>(app: Arc<App<S>>) {
    let mut said = false;
    loop {
        let mut pause = EVERY;
        match app.limiter().store().usage().await {
            Ok(usage) => {
                let may_evict = usage.may_evict.unwrap_or(said);
                if may_evict != said {
                    log_may_evict(may_evict);
                }
                said = may_evict;
            }
            // Redis keeps a log of those who ask what they may not. A password that is being replaced
            // looks the same, so asking goes on.
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => {
                pause = MISCONFIGURED_PAUSE
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
    }
}

fn log_may_evict(may_evict: bool) {
    match may_evict {
        true => log::emit(LogLevel::Warn, "store_may_evict", MAY, &[]),
        false => log::emit(LogLevel::Info, "store_keeps", "Redis drops no counters any more", &[]),
    }
}

const MAY: &str = "maxmemory-policy lets Redis drop counters when its memory is full, and whose \
    counter is dropped has a fresh quota: expected noeviction";
const EVERY: Duration = Duration::from_secs(5);
const MISCONFIGURED_PAUSE: Duration = Duration::from_secs(300);
