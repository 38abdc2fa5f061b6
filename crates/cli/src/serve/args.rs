//! The flags of `serve`, each with its environment variable.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate::Span;
use tidegate_server::grpc::GrpcOptions;
use tidegate_server::resp::{Password, RespOptions};
use tidegate_server::{
    ClientRights, HttpOptions, ListenAddress, ListenerConfig, ListenerTls, TlsFiles,
    TransportOptions,
};

use super::listeners::flag;
use super::size;
use super::store::RedisTlsArgs;
use super::traces::TraceArgs;
use crate::gateway::GatewayArgs;
use crate::number;
use crate::operator::OperatorArgs;

/// The server's command-line options.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeCommand {
    /// The policies; a demo if absent. Reloaded when the file changes, and on SIGHUP
    #[arg(long, env = "TIDEGATE_CONFIG", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// A file without `--config`, which is a common slip. It is refused.
    #[arg(hide = true)]
    pub(super) stray: Option<PathBuf>,
    /// Where to answer HTTP: host:port, unix:/path, or off; port 0 picks a free one
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    http: String,
    /// Where to answer Envoy's rate limit queries, over gRPC: host:port, unix:/path, or off; port 0
    /// picks a free one
    #[arg(long, env = "TIDEGATE_GRPC", value_name = "ADDR", default_value = "127.0.0.1:8081")]
    grpc: String,
    /// Charge each descriptor of an Envoy request on its own, even if another one is over its
    /// limit, as envoyproxy/ratelimit does. By default all of them are charged or none
    #[arg(long, env = "TIDEGATE_CHARGE_EACH")]
    charge_each: bool,
    /// Where to answer Redis clients: host:port, unix:/path, or off; port 0 picks a free one
    #[arg(long, env = "TIDEGATE_RESP", value_name = "ADDR", default_value = "127.0.0.1:6380")]
    resp: String,
    /// What clients may do besides checks, separated by commas: refund and reset (on every
    /// listener), or on one listener only: http:refund, grpc:refund, resp:refund, resp:reset
    #[arg(long, env = "TIDEGATE_ALLOW", value_name = "LIST", default_value = "none")]
    allow: ClientRights,
    /// More host names to accept on a loopback HTTP listener, besides those of this machine, separated
    /// by commas. All others are refused, because a page in a browser could use them
    #[arg(long, env = "TIDEGATE_HTTP_HOSTS", value_name = "NAMES", value_delimiter = ',')]
    http_hosts: Vec<String>,
    /// A file with the password, of at least 16 characters, that Redis clients must send. By default
    /// they need none. TIDEGATE_RESP_PASSWORD may hold the password itself
    #[arg(long, env = "TIDEGATE_RESP_PASSWORD_FILE", value_name = "FILE")]
    resp_password_file: Option<PathBuf>,
    /// Where the counters are: memory, redis://, rediss://, redis+unix://, redis+sentinel:// or
    /// redis+cluster://. Defaults to what the configuration says
    #[arg(long, env = "TIDEGATE_STORE", value_name = "URL", hide_env_values = true)]
    pub(super) store: Option<String>,
    /// A file with the password of a Redis whose URL has none, read again for each connection.
    /// TIDEGATE_STORE_PASSWORD may hold the password itself
    #[arg(long, env = "TIDEGATE_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub(super) store_password_file: Option<PathBuf>,
    /// A file with the deployment's secret, under which keys are hashed in Redis: the same in all
    /// instances, and at least 16 characters. TIDEGATE_SECRET may hold the secret itself
    #[arg(long, env = "TIDEGATE_SECRET_FILE", value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// How many instances share the limits: each gets its part of them while Redis is unavailable
    #[arg(long, env = "TIDEGATE_EXPECTED_NODES", value_name = "N", default_value_t = 1,
        value_parser = |text: &str| number::whole::<u32>(text, 1..=10_000))]
    pub(super) expected_nodes: u32,
    /// How many worker threads to run, each with its own sockets and store connections. Defaults to the
    /// number of cores
    #[arg(long, env = "TIDEGATE_WORKERS", value_name = "N",
        value_parser = |text: &str| number::whole::<u16>(text, 1..=1_024))]
    workers: Option<u16>,
    /// The most memory for counters, such as 512MiB or 4GiB. Defaults to half of what this process
    /// may use. When it is used up, new keys share counters
    #[arg(long, env = "TIDEGATE_MAX_MEMORY", value_name = "SIZE", value_parser = size::bytes)]
    pub(super) max_memory: Option<u64>,
    /// The most keys in memory. Defaults to as many as fit
    #[arg(long, env = "TIDEGATE_MAX_KEYS", value_name = "N",
        value_parser = |text: &str| number::whole::<u64>(text, 1..=10_000_000_000))]
    pub(super) max_keys: Option<u64>,
    #[command(flatten)]
    pub(super) redis: RedisTlsArgs,
    #[command(flatten)]
    pub(super) gateway: GatewayArgs,
    #[command(flatten)]
    pub(super) operate: OperatorArgs,
    #[command(flatten)]
    pub(super) traces: TraceArgs,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    bounds: BoundArgs,
}

impl ServeCommand {
    /// Every listener that is not `off`: its transport with options, and its address.
    pub(super) fn listeners(&self) -> anyhow::Result<Vec<(TransportOptions, ListenAddress)>> {
        let password = secret(self.resp_password_file.as_deref(), "TIDEGATE_RESP_PASSWORD")?;
        let http = HttpOptions { hosts: self.http_hosts.clone() };
        let grpc = GrpcOptions { charge_each: self.charge_each };
        let resp = RespOptions { password: password.map(Password::new) };
        let listeners = [
            (TransportOptions::Http(http), &self.http),
            (TransportOptions::Grpc(grpc), &self.grpc),
            (TransportOptions::Resp(resp), &self.resp),
        ];
        let open = listeners.into_iter().filter(|(_, address)| *address != "off");
        let parse = |(options, address): (TransportOptions, &String)| {
            let address = address.parse().with_context(|| flag(options.transport()))?;
            Ok((options, address))
        };
        open.map(parse).collect()
    }

    pub(super) fn workers(&self) -> NonZeroUsize {
        let chosen = self.workers.and_then(|workers| NonZeroUsize::new(workers.into()));
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        chosen.unwrap_or_else(cores)
    }

    /// The bounds of every listener.
    pub(super) fn config(&self) -> ListenerConfig {
        self.bounds.config()
    }

    /// What clients may do besides checks.
    pub(super) const fn rights(&self) -> ClientRights {
        self.allow
    }

    /// The deployment's secret, if there is one.
    pub(super) fn secret(&self) -> anyhow::Result<Option<String>> {
        secret(self.secret_file.as_deref(), "TIDEGATE_SECRET")
    }
}

/// From a file or from the environment. Never from the command line, where every user of the
/// machine can read it.
pub(super) fn secret(file: Option<&Path>, variable: &str) -> anyhow::Result<Option<String>> {
    let (origin, secret) = match file {
        None => match std::env::var(variable) {
            Ok(secret) if !secret.is_empty() => (variable.to_owned(), secret),
            _ => return Ok(None),
        },
        Some(path) => {
            let origin = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the secret in {origin}"))?;
            (origin, text.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    match secret.chars().count() {
        0 => bail!("{origin} is empty: expected a secret"),
        length @ 1..SHORTEST_SECRET => bail!(
            "{origin}: a secret of {length} characters: expected at least {SHORTEST_SECRET}, such as \
             from: openssl rand -hex 16"
        ),
        _ => Ok(Some(secret)),
    }
}

/// A shorter secret can be guessed.
const SHORTEST_SECRET: usize = 16;

/// The options for TLS on the listeners.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// Serve TLS with this certificate and its chain (PEM). Reloaded like the policies
    #[arg(long, env = "TIDEGATE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "TIDEGATE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate issued by one of the authorities in this file (PEM). That
    /// does not make them operators: see --admin-client-ca
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_CA", value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
}

impl TlsArgs {
    pub(super) fn load(&self) -> anyhow::Result<Option<ListenerTls>> {
        self.load_with(self.tls_client_ca.as_ref())
    }

    /// The same server certificate, for a listener whose clients' certificates are by `client_ca`.
    pub(super) fn load_with(
        &self,
        client_ca: Option<&PathBuf>,
    ) -> anyhow::Result<Option<ListenerTls>> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => {
                let (cert, key) = (cert.clone(), key.clone());
                Ok(Some(ListenerTls::load(TlsFiles { cert, key, client_ca: client_ca.cloned() })?))
            }
            (None, None) if client_ca.is_none() => Ok(None),
            (Some(_), None) => {
                bail!("--tls-cert needs its private key: expected --tls-key as well")
            }
            (None, Some(_)) => {
                bail!("--tls-key needs its certificate: expected --tls-cert as well")
            }
            (None, None) => {
                bail!("client certificates need TLS: expected --tls-cert and --tls-key as well")
            }
        }
    }

    /// The certificate, for clients that have to trust it.
    pub(super) fn cert(&self) -> Option<&PathBuf> {
        self.tls_cert.as_ref()
    }
}

/// The options that bound what clients can use.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Bounds")]
pub(crate) struct BoundArgs {
    /// The most connections per listener; when all are taken, a new one replaces one of the client that
    /// has the most
    #[arg(long, env = "TIDEGATE_MAX_CONNECTIONS", value_name = "N", default_value_t = 10_000,
        value_parser = |text: &str| number::whole::<u32>(text, 1..=u32::MAX.into()))]
    max_connections: u32,
    /// How many of them one client keeps when all are taken, busy or idle. Defaults to a tenth, except
    /// for loopback addresses
    #[arg(long, env = "TIDEGATE_MAX_CONNECTIONS_PER_CLIENT", value_name = "N",
        value_parser = |text: &str| number::whole::<u32>(text, 1..=u32::MAX.into()))]
    max_connections_per_client: Option<u32>,
    /// How long a request's head, or a TLS handshake, may take
    #[arg(long, env = "TIDEGATE_HEADER_TIMEOUT", value_name = "TIME", default_value = "5s",
        value_parser = timeout)]
    header_timeout: Duration,
    /// How long a request's body may take
    #[arg(long, env = "TIDEGATE_BODY_TIMEOUT", value_name = "TIME", default_value = "5s",
        value_parser = timeout)]
    body_timeout: Duration,
    /// How long a connection may be idle between requests
    #[arg(long, env = "TIDEGATE_IDLE_TIMEOUT", value_name = "TIME", default_value = "1m",
        value_parser = timeout)]
    idle_timeout: Duration,
    /// The largest body, such as 64KiB or 1MiB
    #[arg(long, env = "TIDEGATE_MAX_BODY", value_name = "SIZE", default_value = "64KiB",
        value_parser = |text: &str| size::bytes_within(text, 1..=1 << 30))]
    max_body: u64,
    /// How long to keep serving after SIGTERM with /readyz failing, so that load balancers move away
    #[arg(long, env = "TIDEGATE_DRAIN_DELAY", value_name = "TIME", default_value = "0s",
        value_parser = span)]
    drain_delay: Duration,
    /// How long requests in flight may still take after --drain-delay
    #[arg(long, env = "TIDEGATE_DRAIN_TIMEOUT", value_name = "TIME", default_value = "10s",
        value_parser = span)]
    drain_timeout: Duration,
}

impl BoundArgs {
    fn config(&self) -> ListenerConfig {
        ListenerConfig {
            max_connections: self.max_connections as usize,
            max_connections_per_client: self.max_connections_per_client.map(|most| most as usize),
            header_timeout: self.header_timeout,
            body_timeout: self.body_timeout,
            idle_timeout: self.idle_timeout,
            max_body: usize::try_from(self.max_body).unwrap_or(usize::MAX),
            drain_delay: self.drain_delay,
            drain_timeout: self.drain_timeout,
            ..ListenerConfig::default()
        }
    }
}

/// A time, such as `500ms`, `5s` or `1m`.
fn span(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    match Duration::from(span) {
        span if span > LONGEST => Err(format!("expected at most {}s", LONGEST.as_secs())),
        span => Ok(span),
    }
}

/// A time span that is long enough for a timeout.
fn timeout(text: &str) -> Result<Duration, String> {
    match span(text)? {
        span if span < SHORTEST => Err(format!("expected at least {SHORTEST:?}")),
        span => Ok(span),
    }
}

const SHORTEST: Duration = Duration::from_millis(1);
/// A longer time is a mistake.
const LONGEST: Duration = Duration::from_secs(86_400);
