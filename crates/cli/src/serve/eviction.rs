//! Watches whether Redis may drop counters: its `maxmemory-policy` can be changed while it runs.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Store, StoreErrorKind};
use tidegate_server::App;
use tidegate_server::log::{self, LogLevel};

/// Logs when the store has been set to drop counters, and when it has been set not to.
pub(super) async fn log_eviction_changes<S: Store + 'static>(app: Arc<App<S>>) {
    let mut last = false;
    loop {
        let mut pause = EVERY;
        match app.limiter().store().usage().await {
            Ok(usage) => {
                let may_evict = usage.may_evict.unwrap_or(last);
                if may_evict != last {
                    log_may_evict(may_evict);
                }
                last = may_evict;
            }
            // Redis logs every command that its ACL forbids, so the pause is long. A password that is
            // being replaced fails in the same way, so the checks go on.
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => {
                pause = MISCONFIGURED_PAUSE;
            }
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
    }
}

fn log_may_evict(may_evict: bool) {
    match may_evict {
        true => log::emit(LogLevel::Warn, "store_may_evict", MAY, &[]),
        false => log::emit(LogLevel::Info, "store_keeps", "Redis no longer drops counters", &[]),
    }
}

const MAY: &str = "maxmemory-policy lets Redis drop counters when its memory is full, which \
    gives callers a fresh quota: expected noeviction";
const EVERY: Duration = Duration::from_secs(5);
const MISCONFIGURED_PAUSE: Duration = Duration::from_secs(300);
