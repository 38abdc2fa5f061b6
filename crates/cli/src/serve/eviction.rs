//! Watches whether Redis may drop counters: it can be told to while it runs.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Store, StoreErrorKind};
use tidegate_server::App;
use tidegate_server::log::{self, Level};

/// Logs when the store has been set to drop counters, and when it has been set not to.
pub(super) async fn tell_of_evictions<S: Store + 'static>(app: Arc<App<S>>) {
    let mut said = false;
    loop {
        let mut pause = EVERY;
        match app.limiter().store().usage().await {
            Ok(usage) => {
                let may_evict = usage.may_evict.unwrap_or(said);
                if may_evict != said {
                    say(may_evict);
                }
                said = may_evict;
            }
            // Redis keeps a log of those who ask what they may not. A password that is being replaced
            // looks the same, so asking goes on.
            Err(error) if error.kind() == StoreErrorKind::Misconfigured => pause = SELDOM,
            Err(_) => {}
        }
        tokio::time::sleep(pause).await;
    }
}

fn say(may_evict: bool) {
    match may_evict {
        true => log::say(Level::Warn, "store_may_evict", MAY, &[]),
        false => log::say(Level::Info, "store_keeps", "Redis drops no counters any more", &[]),
    }
}

const MAY: &str = "maxmemory-policy lets Redis drop counters when its memory is full, and whose \
    counter is dropped has a fresh quota: expected noeviction";
const EVERY: Duration = Duration::from_secs(5);
const SELDOM: Duration = Duration::from_secs(300);
