//! Chooses and opens the store in which `serve` keeps its counters.

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use tidegate::config::PlanSettings;
use tidegate::config::SecretText;
use tidegate::{MemoryStats, MemoryStore, Plan, RedisConfig, RedisStore, RedisUrlError};
use tidegate_server::WorkerStores;

use super::args::secret;
use super::{ServeCommand, size};
use crate::shared_keys::key_templates;

/// The options for TLS connections to Redis.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Redis over TLS")]
pub(crate) struct RedisTlsArgs {
    /// Trust the certificates in this file (PEM), instead of the system's, for rediss://
    #[arg(long, env = "TIDEGATE_REDIS_CA", value_name = "FILE")]
    redis_ca: Option<PathBuf>,
    /// The certificate to present to Redis, and its chain (PEM). Read again for each connection
    #[arg(long, env = "TIDEGATE_REDIS_CERT", value_name = "FILE")]
    redis_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "TIDEGATE_REDIS_KEY", value_name = "FILE")]
    redis_key: Option<PathBuf>,
}

impl RedisTlsArgs {
    /// Adds these certificates to the configuration. Refuses certificates that would not be used.
    fn apply(&self, url: &str, mut config: RedisConfig) -> anyhow::Result<RedisConfig> {
        if self.is_set() && !url.starts_with("rediss") {
            bail!(
                "{config}: --redis-ca, --redis-cert and --redis-key need TLS: expected rediss://"
            );
        }
        if let Some(ca) = &self.redis_ca {
            readable("--redis-ca", ca)?;
            config = config.ca_file(ca);
        }
        match (&self.redis_cert, &self.redis_key) {
            (Some(cert), Some(key)) => {
                readable("--redis-cert", cert)?;
                readable("--redis-key", key)?;
                Ok(config.client_cert(cert, key))
            }
            (None, None) => Ok(config),
            (Some(_), None) => bail!("--redis-cert needs its key: expected --redis-key as well"),
            (None, Some(_)) => {
                bail!("--redis-key needs its certificate: expected --redis-cert as well")
            }
        }
    }

    const fn is_set(&self) -> bool {
        self.redis_ca.is_some() || self.redis_cert.is_some() || self.redis_key.is_some()
    }
}

/// A file that is missing now would be noticed only when a connection fails.
fn readable(flag: &str, path: &PathBuf) -> anyhow::Result<()> {
    match std::fs::read(path) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{flag}: cannot read {}: {error}", path.display()),
    }
}

/// The store that holds the counters.
pub(super) enum StoreChoice {
    Memory(Box<MemoryStore>),
    Redis(Box<WorkerStores<RedisStore>>),
}

impl ServeCommand {
    /// Opens the store of the command line, otherwise of the file, and describes it for the startup
    /// message.
    pub(super) fn open_store(&self, plan: Option<&Plan>) -> anyhow::Result<(StoreChoice, String)> {
        let settings = plan.map(Plan::settings);
        let url = self.store.as_deref().or_else(|| settings.and_then(|settings| settings.store()));
        match url {
            None | Some("memory") => {
                if self.redis.is_set() {
                    bail!(
                        "--redis-ca, --redis-cert and --redis-key are for --store rediss://, and \
                           counters are in memory"
                    );
                }
                let store = self.memory();
                let mut about = self.about_memory(&store.stats());
                // A secret that is missing or too short is a mistake with any store.
                if self.secret()?.is_some() {
                    about += SECRET_NOT_USED;
                }
                Ok((StoreChoice::Memory(Box::new(store)), about))
            }
            Some(url) => {
                let config: RedisConfig = url.parse().map_err(|error| no_store(url, &error))?;
                let config = self.redis.apply(url, config)?;
                let config =
                    self.with_password(config, settings.and_then(PlanSettings::store_password))?;
                let (secret, mut about) = (self.secret()?, config.to_string());
                let builder =
                    RedisStore::builder(config).secret(secret.as_deref().unwrap_or_default());
                // The builder needs no key format: key names come with the charges.
                for template in plan.map(key_templates).unwrap_or_default() {
                    about += &format!("\nkeys: {template}");
                }
                about += match &secret {
                    _ if has_formats_only(plan) => "",
                    None => NO_SECRET,
                    Some(_) => "\nkeys: hashed with the deployment's secret",
                };
                if self.is_password_shown(url) {
                    about += PASSWORD_SHOWN;
                }
                let store = WorkerStores::new(self.workers().get(), || builder.clone().build());
                Ok((StoreChoice::Redis(Box::new(store)), about))
            }
        }
    }

    /// Adds the password of the command line, the environment or the file, if there is one. It is read
    /// here so that an unreadable one fails at startup, not at the first connection.
    fn with_password(
        &self,
        config: RedisConfig,
        configured: Option<&SecretText>,
    ) -> anyhow::Result<RedisConfig> {
        let file = match (&self.store_password_file, configured) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(SecretText::File(file))) => Some(file.clone()),
            _ => None,
        };
        let variable = match configured {
            Some(SecretText::Env(name)) if self.store_password_file.is_none() => name,
            _ => "TIDEGATE_STORE_PASSWORD",
        };
        let password = match configured {
            Some(SecretText::Text(text)) if file.is_none() => Some(text.clone()),
            _ => secret(file.as_deref(), variable)?,
        };
        let is_missing = matches!(configured, Some(SecretText::Env(_))) && password.is_none();
        if is_missing {
            bail!("store_password: ${variable} is not set: expected the password");
        }
        if password.is_some() && config.has_password() {
            bail!("two passwords for the store: expected one, in its URL or separately");
        }
        Ok(match (file, password) {
            (Some(file), _) => config.password_file(file),
            (None, Some(password)) => config.password(password),
            (None, None) => config,
        })
    }

    fn memory(&self) -> MemoryStore {
        let mut builder = MemoryStore::builder();
        if let Some(bytes) = self.max_memory {
            builder = builder.max_memory(bytes);
        }
        if let Some(keys) = self.max_keys {
            builder = builder.max_keys(usize::try_from(keys).unwrap_or(usize::MAX));
        }
        builder.build()
    }

    fn about_memory(&self, stats: &MemoryStats) -> String {
        let MemoryStats { max_keys, max_bytes, .. } = stats;
        let size = size::format_size(self.max_memory.unwrap_or(*max_bytes as u64));
        match (self.max_memory, self.max_keys) {
            (None, Some(_)) => format!("memory, at most {max_keys} keys"),
            (Some(_), _) => format!("memory, at most {size}, room for {max_keys} keys"),
            (None, None) => format!(
                "memory, at most {size} (half of what this process may use), room for {max_keys} keys"
            ),
        }
    }

    /// Whether anyone who can list processes can read the password.
    fn is_password_shown(&self, url: &str) -> bool {
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        let has_password = user.is_some_and(|(user, _)| user.contains(':'));
        self.store.is_some() && std::env::var_os("TIDEGATE_STORE").is_none() && has_password
    }
}

/// A URL that is not for Redis may be meant for memory, the one store without a URL.
fn no_store(url: &str, error: &RedisUrlError) -> anyhow::Error {
    match url.starts_with("redis") {
        true => anyhow!("{error}"),
        false => anyhow!("{error}; or memory"),
    }
}

/// Warnings about the setup of Redis, one per line.
pub(super) async fn store_warnings(store: &WorkerStores<RedisStore>) -> String {
    let warnings = store.own().setup_warnings().await;
    warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect()
}

/// Whether every policy sets the names of its keys itself.
fn has_formats_only(plan: Option<&Plan>) -> bool {
    plan.is_some_and(|plan| plan.policies().iter().all(|policy| policy.key_format().is_some()))
}

const NO_SECRET: &str = "\nkeys: hashed without a secret, so anyone who reads Redis can guess the \
    callers; TIDEGATE_SECRET or --secret-file sets one for all instances";
const SECRET_NOT_USED: &str =
    "\nkeys: never leave this process, so the deployment's secret is not used";
const PASSWORD_SHOWN: &str = "\nwarning: the password in --store is visible to anyone who can list \
    processes: expected it in TIDEGATE_STORE, or as store in the configuration";
