//! The signals that stop a server or make it reload.

use std::io;
use std::sync::Arc;

use tidegate_server::ReloadRequest;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// The signals that end a server: the first one gracefully, the second one immediately.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    pub(crate) fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Reloads the policies and the certificates on every SIGHUP.
pub(super) fn reload_on_hangup(
    policies: Option<ReloadRequest>,
    certificates: Vec<Arc<Notify>>,
) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            policies.iter().for_each(ReloadRequest::ask);
            certificates.iter().for_each(|follower| follower.notify_one());
        }
    });
    Ok(())
}
