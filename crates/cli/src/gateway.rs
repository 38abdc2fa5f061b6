//! `tidegate serve --upstream URL`: the gateway's part of the server.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use tidegate::config::{Source, gateway};
use tidegate::{Plan, Store};
use tidegate_gateway::{Gateway, serve};
use tidegate_server::{App, Config};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What can be said about it on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct GatewayArgs {
    /// Passes requests on to this service, as far as the policies allow: http://, https:// or h2c://
    #[arg(long, env = "TIDEGATE_UPSTREAM", value_name = "URL")]
    upstream: Option<String>,
    /// Where the gateway listens, in place of what the configuration says
    #[arg(long, env = "TIDEGATE_GATEWAY", value_name = "ADDR")]
    gateway: Option<String>,
}

/// A gateway that listens already.
pub(crate) struct Open {
    gateway: Arc<Gateway>,
    listeners: Vec<TcpListener>,
}

impl GatewayArgs {
    /// The policies of a gateway that has no configuration.
    pub(crate) fn demo(&self) -> anyhow::Result<Option<Source>> {
        let demo = self.upstream.as_ref().map(|_| Source::new("demo", DEMO));
        Ok(demo.transpose()?)
    }

    /// Listens, if there is a gateway.
    pub(crate) async fn open(&self, plan: Arc<Plan>) -> anyhow::Result<Option<Open>> {
        let fallback = match (&self.upstream, plan.gateway()) {
            (Some(_), Some(_)) => {
                bail!("--upstream and a gateway in the configuration: expected one")
            }
            (None, None) => return Ok(None),
            (None, Some(_)) => None,
            (Some(url), None) => {
                let to = gateway::Gateway::to(url);
                Some(to.map_err(|why| anyhow!("--upstream {why}"))?)
            }
        };
        let gateway = Arc::new(Gateway::new(plan, fallback)?);
        let addresses = self.gateway.clone().map_or_else(|| gateway.listen(), |it| vec![it]);
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(crate::serve::bind(&address).await?);
        }
        Ok(Some(Open { gateway, listeners }))
    }
}

impl Open {
    /// Where it listens, in a line each.
    pub(crate) fn greeting(&self) -> String {
        let addresses = self.listeners.iter().filter_map(|it| it.local_addr().ok());
        addresses.map(|address| format!("gateway on http://{address}\n")).collect()
    }

    /// Serves until `stopped` turns true.
    pub(crate) fn serve<S: Store + 'static>(
        self,
        app: &Arc<App<S>>,
        stopped: &watch::Receiver<bool>,
    ) -> JoinSet<()> {
        let mut serving = JoinSet::new();
        for listener in self.listeners {
            let (app, gateway) = (Arc::clone(app), Arc::clone(&self.gateway));
            let mut stopped = stopped.clone();
            let shutdown = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
            serving.spawn(serve(listener, app, gateway, Config::default(), shutdown));
        }
        serving
    }
}

const DEMO: &str = "policies: [{ name: demo, key: [ip], limits: [100/minute] }]";
