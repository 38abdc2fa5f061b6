//! TLS, with certificates that are renewed while connections come and go.

mod files;
mod subject;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use self::files::TlsContents;
pub use self::files::{TlsFileError, TlsFiles};
use crate::files::follow;
use crate::stream::{ClientStream, RawStream};

/// How TLS is served: our certificate, and which ones clients must have.
///
/// ```no_run
/// use tidegate_server::{ListenerTls, TlsFiles};
///
/// let tls = ListenerTls::load(TlsFiles {
///     cert: "server.crt".into(),
///     key: "server.key".into(),
///     client_ca: None,
/// })?;
/// # Ok::<(), tidegate_server::TlsFileError>(())
/// ```
#[derive(Debug)]
pub struct ListenerTls {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    /// What was tried last, valid or not: the same is not tried again.
    last: Mutex<Option<TlsContents>>,
    wake: Arc<Notify>,
}

/// The result of looking at the files.
#[derive(Debug)]
pub enum TlsReloadOutcome {
    /// They have not changed.
    Unchanged,
    /// New connections get the new certificate.
    Changed,
    /// They are wrong, and the previous certificate stays.
    Refused(TlsFileError),
}

impl ListenerTls {
    /// Loads these files.
    pub fn load(files: TlsFiles) -> Result<Self, TlsFileError> {
        let contents = files.read()?;
        let config = ArcSwap::from_pointee(contents.parse(&files)?);
        let wake = Arc::new(Notify::new());
        Ok(Self { files, config, last: Mutex::new(Some(contents)), wake })
    }

    /// Whether only clients with a certificate that we trust get in.
    pub const fn knows_clients(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Looks at the files. New connections get what is new; open ones keep what they have.
    pub fn reload(&self) -> TlsReloadOutcome {
        self.reload_if(&|| true)
    }

    /// The same, if what was read is whole.
    fn reload_if(&self, is_whole: &dyn Fn() -> bool) -> TlsReloadOutcome {
        let mut last = self.last.lock();
        let contents = self.files.read();
        if !is_whole() {
            return TlsReloadOutcome::Unchanged;
        }
        let contents = match contents {
            Ok(contents) => contents,
            // Reported once.
            Err(error) => {
                let first = last.take();
                return first
                    .map_or(TlsReloadOutcome::Unchanged, |_| TlsReloadOutcome::Refused(error));
            }
        };
        if last.as_ref() == Some(&contents) {
            return TlsReloadOutcome::Unchanged;
        }
        let config = contents.parse(&self.files);
        *last = Some(contents);
        match config {
            Ok(config) => {
                self.config.store(Arc::new(config));
                TlsReloadOutcome::Changed
            }
            Err(error) => TlsReloadOutcome::Refused(error),
        }
    }

    /// Wakes [`follow`](Self::follow) up: somebody asks for a reload.
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Follows the files forever, and tells `report` about every change.
    pub async fn follow(
        self: Arc<Self>,
        report: impl Fn(&TlsReloadOutcome) + Send + Sync + 'static,
    ) {
        let (paths, wake) = (self.files.paths(), self.wake());
        let report = Arc::new(report);
        let look = move |tls: Arc<Self>, is_whole: &dyn Fn() -> bool| {
            let reloaded = tls.reload_if(is_whole);
            if !matches!(reloaded, TlsReloadOutcome::Unchanged) {
                report(&reloaded);
            }
            tls
        };
        follow(self, move |_| paths.clone(), wake, look).await;
    }

    /// Whether only clients with a certificate are let in.
    pub const fn wants_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Performs the handshake with a client, in time or not at all.
    pub(crate) async fn accept(&self, plain: RawStream, within: Duration) -> Option<ClientStream> {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        let stream = timeout(within, acceptor.accept(plain)).await.ok()?.ok()?;
        let certificates = stream.get_ref().1.peer_certificates();
        let subject = certificates.and_then(|chain| subject::common_name(chain.first()?));
        Some(ClientStream::over_tls(stream, subject))
    }
}
