//! Where `serve` keeps its counters.

use anyhow::{anyhow, bail};
use tidegate::config::Settings;
use tidegate::config::gateway::SecretText;
use tidegate::{MemoryStats, MemoryStore, Plan, RedisConfig, RedisStore, RedisUrlError};
use tidegate_server::PerWorker;

use super::flags::secret;
use super::{Serve, size};
use crate::shared_keys::templates_of;

/// Where the counters are.
pub(super) enum Chosen {
    Memory(Box<MemoryStore>),
    Redis(Box<PerWorker<RedisStore>>),
}

impl Serve {
    /// As the command line says, otherwise as the file does; and anything to say about it.
    pub(super) fn store_of(&self, plan: Option<&Plan>) -> anyhow::Result<(Chosen, String)> {
        let settings = plan.map(Plan::settings);
        let url = self.store.as_deref().or_else(|| settings.and_then(|settings| settings.store()));
        match url {
            None | Some("memory") => {
                let store = self.memory();
                let about = self.about_memory(&store.stats());
                Ok((Chosen::Memory(Box::new(store)), about))
            }
            Some(url) => {
                let config: RedisConfig = url.parse().map_err(|error| no_store(url, &error))?;
                let config =
                    self.with_password(config, settings.and_then(Settings::store_password))?;
                let (secret, mut about) = (self.secret()?, config.to_string());
                let builder =
                    RedisStore::builder(config).secret(secret.as_deref().unwrap_or_default());
                // Names come with the charges.
                for template in plan.map(templates_of).unwrap_or_default() {
                    about += &format!("\nkeys: {template}");
                }
                about += match &secret {
                    _ if has_formats_only(plan) => "",
                    None => NO_SECRET,
                    Some(_) => "\nkeys: hashed under the deployment's secret",
                };
                if self.is_password_shown(url) {
                    about += PASSWORD_SHOWN;
                }
                let store = PerWorker::new(self.workers().get(), || builder.clone().build());
                Ok((Chosen::Redis(Box::new(store)), about))
            }
        }
    }

    /// With the password of the command line, the environment or the file, if there is one. One that
    /// cannot be read is found now rather than when Redis is asked.
    fn with_password(
        &self,
        config: RedisConfig,
        said: Option<&SecretText>,
    ) -> anyhow::Result<RedisConfig> {
        let file = match (&self.store_password_file, said) {
            (Some(file), _) => Some(file.clone()),
            (None, Some(SecretText::File(file))) => Some(file.clone()),
            _ => None,
        };
        let variable = match said {
            Some(SecretText::Env(name)) if self.store_password_file.is_none() => name,
            _ => "TIDEGATE_STORE_PASSWORD",
        };
        let password = match said {
            Some(SecretText::Text(text)) if file.is_none() => Some(text.clone()),
            _ => secret(file.as_deref(), variable)?,
        };
        let is_missing = matches!(said, Some(SecretText::Env(_))) && password.is_none();
        if is_missing {
            bail!("store_password: ${variable} is not set: expected the password");
        }
        if password.is_some() && config.has_password() {
            bail!("two passwords of the store: expected one, in its address or apart from it");
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
        let size = size::shown(self.max_memory.unwrap_or(*max_bytes as u64));
        match (self.max_memory, self.max_keys) {
            (None, Some(_)) => format!("memory, at most {max_keys} keys"),
            (Some(_), _) => format!("memory, at most {size}, {max_keys} keys"),
            (None, None) => {
                format!("memory, at most {size} (half of what there is), {max_keys} keys")
            }
        }
    }

    /// Whether everybody who can list processes can read the password.
    fn is_password_shown(&self, url: &str) -> bool {
        let user = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
        let has_password = user.is_some_and(|(user, _)| user.contains(':'));
        self.store.is_some() && std::env::var_os("TIDEGATE_STORE").is_none() && has_password
    }
}

/// Whoever does not mean Redis may mean the one store that has no address.
fn no_store(url: &str, error: &RedisUrlError) -> anyhow::Error {
    match url.starts_with("redis") {
        true => anyhow!("{error}"),
        false => anyhow!("{error}; or memory"),
    }
}

/// What an operator should know about Redis, one per line.
pub(super) async fn doubts_of(store: &PerWorker<RedisStore>) -> String {
    let doubts = store.own().doubts().await;
    doubts.iter().map(|doubt| format!("\nwarning: {doubt}")).collect()
}

/// Whether no policy leaves the names of its keys to us.
fn has_formats_only(plan: Option<&Plan>) -> bool {
    plan.is_some_and(|plan| plan.policies().iter().all(|policy| policy.key_format().is_some()))
}

const NO_SECRET: &str = "\nkeys: hashed without a secret, so that who reads Redis can guess whose \
    they are; TIDEGATE_SECRET or --secret-file sets one for all instances";
const PASSWORD_SHOWN: &str = "\nwarning: the password in --store is shown to everybody who can list \
    processes: expected it in TIDEGATE_STORE, or as store in the configuration";
