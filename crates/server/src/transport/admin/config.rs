//! The configuration of the admin listener: who can use it, and what it shows.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::tokens::{AdminExposedError, AdminScope, AdminTokens, AdminTokensError};
use crate::files;
use crate::service::log::{self, LogLevel};
use crate::{BoundAddress, ReloadRequest, StreamPeer};

/// The configuration of the admin listener: its tokens, and the settings that it shows.
///
/// ```
/// use tidegate_server::BoundAddress;
/// use tidegate_server::admin::{AdminConfig, AdminTokens};
///
/// let here = BoundAddress::Tcp("127.0.0.1:9090".parse()?);
/// assert!(AdminConfig::new(here, AdminTokens::default(), false).is_ok());
/// let everywhere = BoundAddress::Tcp("0.0.0.0:9090".parse()?);
/// let refused = AdminConfig::new(everywhere, AdminTokens::default(), false);
/// assert!(refused.unwrap_err().to_string().contains("on 0.0.0.0:9090 would be open"));
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
    /// The configuration of a listener at this address. `knows_clients` means that every client has
    /// presented an operator's certificate; without tokens, such clients can do everything. A certificate
    /// that clients of the other listeners have is not an operator's certificate.
    ///
    /// # Errors
    ///
    /// If everybody on the network could use the listener.
    pub fn new(
        address: impl Into<BoundAddress>,
        tokens: AdminTokens,
        knows_clients: bool,
    ) -> Result<Self, AdminExposedError> {
        let address = address.into();
        if tokens.is_empty() && !knows_clients && !address.is_local() {
            return Err(AdminExposedError(address));
        }
        Ok(Self {
            tokens: ArcSwap::from_pointee(tokens),
            file: None,
            knows_clients,
            reload: None,
            settings: Vec::new(),
        })
    }

    /// Reads the tokens from this file again when it changes, so that they can be rotated. An invalid
    /// file changes nothing, and neither does one without tokens if there were some before.
    #[must_use]
    pub fn following(self, file: impl Into<PathBuf>) -> Self {
        Self { file: Some(file.into()), ..self }
    }

    /// Sets the handle with which operators request a reload.
    #[must_use]
    pub fn reloading(self, reload: ReloadRequest) -> Self {
        Self { reload: Some(reload), ..self }
    }

    /// Adds a setting to show with the configuration, such as the store's address. Without secrets.
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

    /// Whether every client that can connect can do everything.
    pub(super) fn is_open(&self) -> bool {
        self.tokens.load().is_empty()
    }

    /// Whether only programs on this machine can connect, and nothing else protects it.
    pub(super) fn trusts_the_machine(&self) -> bool {
        self.is_open() && !self.knows_clients
    }

    /// The scope of a request with this token, and the name of its sender in the log.
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
    pub(super) async fn follow(self: Arc<Self>) {
        let Some(file) = self.file.clone() else { return std::future::pending().await };
        let followed = FollowedTokens { config: self, file: file.clone(), reported: None };
        let look = |followed: FollowedTokens, is_whole: &dyn Fn() -> bool| followed.look(is_whole);
        files::follow(followed, move |_| vec![file.clone()], Arc::default(), look).await;
    }
}

/// The tokens file, and what was last reported about it.
struct FollowedTokens {
    config: Arc<AdminConfig>,
    file: PathBuf,
    reported: Option<AdminTokensError>,
}

impl FollowedTokens {
    /// Reads the file. Blocks, so it is called off the runtime's threads.
    fn look(mut self, is_whole: &dyn Fn() -> bool) -> Self {
        let read = AdminTokens::read(&self.file);
        if !is_whole() {
            return self;
        }
        match read {
            Ok(tokens) if tokens.is_empty() && !self.config.is_open() => {
                self.warn(AdminTokensError::no_tokens());
            }
            // A file that was written again, or became valid again, can have the same tokens.
            Ok(tokens) => {
                let is_same = tokens.is_same_as(&self.config.tokens.load());
                self.config.tokens.store(Arc::new(tokens));
                if self.reported.take().is_some() || !is_same {
                    log::emit(LogLevel::Info, "tokens", "admin tokens: in effect", &[]);
                }
            }
            Err(error) => self.warn(error),
        }
        self
    }

    /// Repeats are left out: a file that is being replaced can be missing for a moment.
    fn warn(&mut self, error: AdminTokensError) {
        if self.reported.as_ref() != Some(&error) {
            let message = format!("admin tokens: {error}; the previous ones stay in effect");
            log::emit(LogLevel::Warn, "tokens", &message, &[]);
            self.reported = Some(error);
        }
    }
}
