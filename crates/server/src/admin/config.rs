//! Configuration of the admin listener.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::time::sleep;

use super::tokens::{AdminExposedError, AdminScope, AdminTokens, AdminTokensError};
use crate::log::{self, LogLevel};
use crate::{BoundAddress, ReloadRequest, StreamPeer};

/// Who may use the admin listener, and what else it shows.
///
/// ```
/// use tidegate_server::BoundAddress;
/// use tidegate_server::admin::{AdminConfig, AdminTokens};
///
/// let here = BoundAddress::Tcp("127.0.0.1:9090".parse()?);
/// assert!(AdminConfig::new(here, AdminTokens::default(), false).is_ok());
/// let everywhere = BoundAddress::Tcp("0.0.0.0:9090".parse()?);
/// let refused = AdminConfig::new(everywhere, AdminTokens::default(), false);
/// assert!(refused.unwrap_err().to_string().starts_with("admin on 0.0.0.0:9090 would be open"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdminConfig {
    tokens: ArcSwap<AdminTokens>,
    file: Option<PathBuf>,
    knows_clients: bool,
    reload: Option<ReloadRequest>,
    settings: Vec<(String, String)>,
}

impl AdminConfig {
    /// For a listener at this place. `knows_clients` says that every client that gets as far as a
    /// request has presented the certificate of an operator; without tokens, such clients may do
    /// everything. A certificate that makes somebody a client of the other listeners is not one.
    ///
    /// # Errors
    ///
    /// If everybody on the network could use it.
    pub fn new(
        place: impl Into<BoundAddress>,
        tokens: AdminTokens,
        knows_clients: bool,
    ) -> Result<Self, AdminExposedError> {
        let place = place.into();
        if tokens.is_empty() && !knows_clients && !place.is_local() {
            return Err(AdminExposedError(place));
        }
        Ok(Self {
            tokens: ArcSwap::from_pointee(tokens),
            file: None,
            knows_clients,
            reload: None,
            settings: Vec::new(),
        })
    }

    /// Reads the tokens from this file again when it changes, so that they can be rotated. A file
    /// that is wrong, or that has no tokens where it had some, changes nothing.
    #[must_use]
    pub fn following(self, file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Where to request a reload.
    #[must_use]
    pub fn reloading(self, reload: ReloadRequest) -> Self {
        Self { reload: Some(reload), ..self }
    }

    /// Something to show with the configuration, such as where the store is. Without secrets.
    #[must_use]
    pub fn setting(mut self, name: &str, value: impl Into<String>) -> Self {
        self.settings.push((name.to_owned(), value.into()));
        self
    }

    pub(super) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    pub(super) const fn reload(&self) -> Option<&ReloadRequest> {
        self.reload.as_ref()
    }

    /// Whether everyone who can connect may do everything.
    pub(super) fn is_open(&self) -> bool {
        self.tokens.load().is_empty()
    }

    /// Whether only programs on this machine can connect, and nothing else protects it.
    pub(super) fn trusts_the_machine(&self) -> bool {
        self.is_open() && !self.knows_clients
    }

    /// What a request with this token may do, and what the log calls its sender.
    pub(super) fn find(
        &self,
        token: Option<&[u8]>,
        peer: &StreamPeer,
    ) -> Option<(AdminScope, String)> {
        if self.is_open() {
            let who = match (&peer.subject, self.knows_clients) {
                (Some(name), _) => format!("certificate {name}"),
                (None, true) => "a certificate without a name".to_owned(),
                (None, false) => "somebody on this machine".to_owned(),
            };
            return Some((AdminScope::Admin, who));
        }
        let tokens = self.tokens.load();
        let (scope, name) = tokens.find(token?)?;
        Some((scope, format!("token {name}")))
    }

    /// Follows the tokens file forever.
    pub(super) async fn follow(&self) {
        let Some(file) = &self.file else { return std::future::pending().await };
        let mut seen = changed(file);
        let mut said: Option<AdminTokensError> = None;
        loop {
            sleep(LOOK_EVERY).await;
            let now = changed(file);
            if now == seen {
                continue;
            }
            match AdminTokens::read(file) {
                Ok(tokens) if tokens.is_empty() && !self.is_open() => {
                    let message = "a file without tokens: those before it stay in effect";
                    log::emit(LogLevel::Warn, "tokens", message, &[]);
                }
                Ok(tokens) => {
                    self.tokens.store(Arc::new(tokens));
                    log::emit(LogLevel::Info, "tokens", "admin tokens: in effect", &[]);
                    said = None;
                }
                // While a file is being replaced it may be missing for a moment.
                Err(error) if said.as_ref() != Some(&error) => {
                    let message = format!("admin tokens: {error}; those before stay in effect");
                    log::emit(LogLevel::Warn, "tokens", &message, &[]);
                    said = Some(error);
                }
                Err(_) => {}
            }
            seen = now;
        }
    }
}

/// What distinguishes one version of a file from the next.
fn changed(file: &Path) -> Option<(std::time::SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

const LOOK_EVERY: Duration = Duration::from_secs(1);
