//! The part of `tidegate serve` for operators: the admin listener, its tokens, and the log format.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tidegate::{SharedSettings, Store};
use tidegate_server::admin::{self, AdminConfig, AdminTokens};
use tidegate_server::log::{self, LogFormat, LogLevel};
use tidegate_server::{
    App, BoundAddress, ListenAddress, Listener, ListenerConfig, ListenerTls, ReloadRequest,
};

use crate::serve::StopSignals;

/// The command-line options for operators.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Operating")]
pub(crate) struct OperatorArgs {
    /// Where to answer operators: host:port, unix:/path, or off. Defaults to 127.0.0.1:9090. Beyond
    /// this machine it needs tokens, or operators with certificates (--admin-client-ca)
    #[arg(long, env = "TIDEGATE_ADMIN", value_name = "ADDR")]
    admin: Option<String>,
    /// A file whose lines hold a scope (read, write or admin), a token and, for the log, name=NAME.
    /// TIDEGATE_ADMIN_TOKENS may hold the same
    #[arg(long, env = "TIDEGATE_ADMIN_TOKENS_FILE", value_name = "FILE")]
    admin_tokens_file: Option<PathBuf>,
    /// Accept as operators those clients of the admin listener whose certificate was issued by an
    /// authority in this file (PEM). Needs --tls-cert and --tls-key
    #[arg(long, env = "TIDEGATE_ADMIN_CLIENT_CA", value_name = "FILE")]
    admin_client_ca: Option<PathBuf>,
    /// Show operators the most frequent keys in clear text instead of as fingerprints
    #[arg(long, env = "TIDEGATE_SHOW_KEYS")]
    show_keys: bool,
    /// The format of lines on standard error: text or json
    #[arg(long, env = "TIDEGATE_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

impl OperatorArgs {
    /// Must be called before anything is logged.
    pub(crate) fn set_log_format(&self) {
        log::set_format(self.log_format);
    }

    pub(crate) const fn shows_keys(&self) -> bool {
        self.show_keys
    }

    /// The most connections to the admin listener; 0 if it is off.
    pub(crate) fn max_connections(&self) -> usize {
        if self.admin.as_deref() == Some("off") { 0 } else { MAX_CONNECTIONS }
    }

    /// The file with the authorities that issue operators' certificates.
    pub(crate) const fn client_ca(&self) -> Option<&PathBuf> {
        self.admin_client_ca.as_ref()
    }

    /// Opens the admin listener, unless it is off, and returns its URL. `tls` is the configuration of
    /// the other listeners, or with `--admin-client-ca` the operators' own.
    pub(crate) async fn open<S: Store + SharedSettings + 'static>(
        &self,
        app: &Arc<App<S>>,
        tls: Option<Arc<ListenerTls>>,
        reload: Option<ReloadRequest>,
        store: &str,
    ) -> anyhow::Result<Option<String>> {
        if self.admin.as_deref() == Some("off") {
            return Ok(None);
        }
        let Some((listener, bound)) = self.bind()? else { return Ok(None) };
        let knows_clients = self.admin_client_ca.is_some();
        // A local listener needs no encryption, and so `top` connects to it without a certificate.
        let tls = tls.filter(|_| knows_clients || !bound.is_local());
        let config = AdminConfig::new(bound.clone(), self.tokens()?, knows_clients)?;
        if !knows_clients && tls.as_ref().is_some_and(|tls| tls.wants_certificates()) {
            log::emit(LogLevel::Info, "admin", CLIENTS_ARE_NOT_OPERATORS, &[]);
        }
        let mut config = config.setting("store", store);
        if let Some(file) = &self.admin_tokens_file {
            config = config.following(file);
        }
        if let Some(reload) = reload {
            config = config.reloading(reload);
        }
        let mut stop = StopSignals::new().context("cannot listen for signals")?;
        let bounds =
            ListenerConfig { max_connections: MAX_CONNECTIONS, ..ListenerConfig::default() };
        let app = Arc::clone(app);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listener = match tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        };
        tokio::spawn(async move {
            admin::serve(listener, app, config, bounds, stop.next()).await;
        });
        Ok(Some(match bound {
            BoundAddress::Tcp(address) => format!("{scheme}://{address}"),
            BoundAddress::Unix(path) => format!("{scheme}+unix:{}", path.display()),
        }))
    }

    /// An address that was given must open. The default one may be taken by another server.
    fn bind(&self) -> anyhow::Result<Option<(Listener, BoundAddress)>> {
        let address: ListenAddress = self.admin.as_deref().unwrap_or(DEFAULT).parse()?;
        match Listener::open(&address) {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if self.admin.is_none() => {
                log::emit(LogLevel::Warn, "admin", &format!("no admin listener: {error}"), &[]);
                Ok(None)
            }
            Err(error) => Err(error).context("--admin"),
        }
    }

    /// From the file, otherwise from the environment. Never from the command line, which other users
    /// can see.
    fn tokens(&self) -> anyhow::Result<AdminTokens> {
        let Some(file) = &self.admin_tokens_file else {
            let text = std::env::var("TIDEGATE_ADMIN_TOKENS").unwrap_or_default();
            return AdminTokens::parse(&text).context("TIDEGATE_ADMIN_TOKENS");
        };
        let tokens = AdminTokens::read(file).with_context(|| file.display().to_string())?;
        if tokens.is_empty() {
            return Err(anyhow!("no tokens: expected a scope and a token on each line"))
                .with_context(|| file.display().to_string());
        }
        Ok(tokens)
    }
}

const DEFAULT: &str = "127.0.0.1:9090";
const CLIENTS_ARE_NOT_OPERATORS: &str = "admin: a certificate of --tls-client-ca is required but not \
    sufficient: operators also need a token. With --admin-client-ca FILE, its certificates identify \
    operators";
/// Operators are few.
const MAX_CONNECTIONS: usize = 64;
