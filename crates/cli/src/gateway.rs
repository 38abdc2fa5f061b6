//! `tidegate serve --upstream URL`: the gateway's part of the server.

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use tidegate::config::PolicySource;
use tidegate::{Plan, Store};
use tidegate_gateway::Gateway;
use tidegate_gateway::config::{GatewayPlan, GatewaySection, SECTIONS};
use tidegate_server::{App, BoundAddress, ListenerTls, Server};

use crate::serve::size::bytes_within;

/// The gateway's command-line options.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Gateway")]
pub(crate) struct GatewayArgs {
    /// Forward the requests that the policies allow to this service: http://, https:// or h2c://
    #[arg(long, env = "TIDEGATE_UPSTREAM", value_name = "URL")]
    upstream: Option<String>,
    /// Where the gateway listens, overriding the configuration
    #[arg(long, env = "TIDEGATE_GATEWAY", value_name = "ADDR")]
    gateway: Option<String>,
    /// The most memory for data waiting in the gateway: bodies over HTTP/2, and queued requests
    #[arg(long, env = "TIDEGATE_MAX_BUFFERED", value_name = "SIZE", default_value = "256MiB",
        value_parser = |text: &str| bytes_within(text, 1 << 20..=1 << 40))]
    max_buffered: u64,
}

impl GatewayArgs {
    /// The policies to use if there is no configuration file: one for the demonstration with
    /// `--upstream`, otherwise none.
    pub(crate) fn demo(&self) -> anyhow::Result<Option<PolicySource>> {
        let demo = self.upstream.as_ref().map(|_| PolicySource::new("demo", DEMO));
        Ok(demo.transpose()?.map(|source| source.with_sections(SECTIONS)))
    }

    /// The service of `--upstream`.
    pub(crate) fn upstream(&self) -> Option<&str> {
        self.upstream.as_deref()
    }

    /// Builds the gateway, if `--upstream` or the configuration defines one.
    pub(crate) fn prepare(&self, plan: Arc<Plan>) -> anyhow::Result<Option<PreparedGateway>> {
        // The gateway for plans that define none, also after a reload.
        let fallback = match (&self.upstream, plan.section::<GatewaySection>()) {
            (Some(_), Some(_)) => {
                bail!("--upstream and a gateway in the configuration: expected one of them")
            }
            (None, None) if self.gateway.is_some() => bail!(
                "--gateway says where the gateway listens, but not where requests go: expected \
                 --upstream, or a gateway in the configuration"
            ),
            (None, None) => return Ok(None),
            (None, Some(_)) => None,
            (Some(url), None) => {
                let to = GatewayPlan::to(url);
                Some(to.map_err(|why| anyhow!("--upstream {why}"))?)
            }
        };
        let memory = usize::try_from(self.max_buffered).unwrap_or(usize::MAX);
        let gateway = Arc::new(Gateway::new(plan, fallback)?.with_memory(memory));
        let addresses = self.gateway.clone().map_or_else(|| gateway.listen(), |one| vec![one]);
        Ok(Some(PreparedGateway { gateway, addresses }))
    }
}

/// A gateway that does not listen yet.
#[derive(Debug)]
pub(crate) struct PreparedGateway {
    gateway: Arc<Gateway>,
    /// Where it will listen.
    addresses: Vec<String>,
}

impl PreparedGateway {
    /// How many open files one client can need over all of the gateway's listeners. At each of
    /// them, it is one for its own connection and one for the connection to the upstream.
    pub(crate) fn files_per_client(&self) -> usize {
        self.addresses.len().saturating_mul(2)
    }

    /// Makes the gateway follow reloads of the plan and of the files that it names.
    pub(crate) fn follow_reloads<S: Store>(&self, app: &App<S>) {
        app.add_extension(&self.gateway);
    }

    /// Opens the gateway's listeners and returns their addresses.
    pub(crate) fn open<S: Store + 'static>(
        self,
        server: &mut Server<S>,
        tls: Option<&Arc<ListenerTls>>,
    ) -> anyhow::Result<Vec<BoundAddress>> {
        let mut bound = Vec::with_capacity(self.addresses.len());
        for address in &self.addresses {
            let gateway = Arc::clone(&self.gateway);
            let opened = server.open_extension(gateway, &address.parse()?, tls.cloned());
            bound.push(opened.context("--gateway")?);
        }
        Ok(bound)
    }
}

/// The configuration of the demonstration.
const DEMO: &str = "policies: [{ name: demo, key: [ip], limits: [100/minute] }]";
