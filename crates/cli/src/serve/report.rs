//! What `serve` says while it runs.

use std::io::Write as _;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Says things on standard error, and never waits for whoever should read them: a pipe that
/// nobody empties must not stop the server.
#[derive(Clone, Debug)]
pub(super) struct Reports(SyncSender<String>);

impl Reports {
    pub(super) fn new() -> Self {
        let (sender, reports) = sync_channel::<String>(MAX_WAITING);
        // Without the thread nothing is said, and everything else goes on.
        let _ = thread::Builder::new().name("reports".to_owned()).spawn(move || {
            for report in reports {
                let _ = std::io::stderr().write_all(report.as_bytes());
            }
        });
        Self(sender)
    }

    pub(super) fn say(&self, what: impl Into<String>) {
        let _ = self.0.try_send(what.into() + "\n");
    }
}

/// What nobody reads for so long is old news.
const MAX_WAITING: usize = 64;
