//! TLS for listeners, with certificates that can be replaced at run time.

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
use crate::net::stream::{ClientStream, RawStream};

/// The TLS configuration of a listener: the server's certificate, and which clients it accepts.
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
    /// The contents that were tried last, valid or not: the same contents are not tried again.
    last: Mutex<Option<TlsContents>>,
    wake: Arc<Notify>,
}

/// The outcome of reading the files again.
#[derive(Debug)]
pub enum TlsReloadOutcome {
    /// The files have not changed.
    Unchanged,
    /// New connections get the new certificate.
    Changed,
    /// The files are invalid, and the previous certificate stays in use.
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

    /// Reads the files again. New connections use new certificates; open connections keep theirs.
    pub fn reload(&self) -> TlsReloadOutcome {
        self.reload_if(&|| true)
    }

    /// The same, unless a file was written while it was read.
    fn reload_if(&self, is_whole: &dyn Fn() -> bool) -> TlsReloadOutcome {
        let mut last = self.last.lock();
        let contents = self.files.read();
        if !is_whole() {
            return TlsReloadOutcome::Unchanged;
        }
        let contents = match contents {
            Ok(contents) => contents,
            // An unreadable file is reported once.
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

    /// Notify this to request a reload from [`follow`](Self::follow).
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Follows the files forever, and passes every change to `report`.
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

    /// Whether clients must present a trusted certificate.
    pub const fn wants_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Performs the handshake with a client. `None` if it fails or takes too long.
    pub(crate) async fn accept(&self, plain: RawStream, within: Duration) -> Option<ClientStream> {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        let stream = timeout(within, acceptor.accept(plain)).await.ok()?.ok()?;
        let certificates = stream.get_ref().1.peer_certificates();
        let subject = certificates.and_then(|chain| subject::common_name(chain.first()?));
        Some(ClientStream::over_tls(stream, subject))
    }
}
