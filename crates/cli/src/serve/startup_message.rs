//! The message that `serve` prints when it starts: addresses, store, configuration and policies.

use std::fmt::Write as _;
use std::path::Path;

use tidegate::config::{LimitDescription, PlannedPolicy};
use tidegate::{OnStoreError, Plan};
use tidegate_server::log;
use tidegate_server::{BoundAddress, ListenerConfig, Transport, example_request};

use crate::validate::hints;

/// Everything that the startup message reports.
pub(super) struct StartupMessage<'a> {
    pub(super) listeners: &'a [(Transport, BoundAddress)],
    /// The addresses of the gateway.
    pub(super) gateways: &'a [BoundAddress],
    /// The service of `--upstream`.
    pub(super) upstream: Option<&'a str>,
    /// The URL of the admin listener.
    pub(super) admin: Option<String>,
    /// The certificate, if TLS is on.
    pub(super) cert: Option<&'a Path>,
    pub(super) workers: usize,
    pub(super) bounds: &'a ListenerConfig,
    /// Where the counters are, with notes and warnings about them.
    pub(super) store: &'a str,
    /// Where traces go, if anywhere.
    pub(super) traces: Option<&'a str>,
    /// How many instances share the limits, if the store can be shared.
    pub(super) shared_by: Option<u32>,
    pub(super) config: Option<&'a Path>,
    pub(super) plan: &'a Plan,
}

impl StartupMessage<'_> {
    /// Logs the event `started`, for programs.
    pub(super) fn log(&self) {
        let urls = |bound: &mut dyn Iterator<Item = String>| bound.collect::<Vec<_>>().join(" ");
        let listeners = urls(&mut self.listeners.iter().map(|listener| self.url(listener)));
        let gateways = self.gateways.iter().cloned();
        let gateways = urls(&mut gateways.map(|bound| self.url(&(Transport::Http, bound))));
        let (workers, policies) =
            (self.workers.to_string(), self.plan.policies().len().to_string());
        let config = self.config.map(|path| path.display().to_string()).unwrap_or_default();
        // Warnings follow on lines of their own.
        let store = self.store.lines().next().unwrap_or_default();
        let all: [(&str, &str); 8] = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("listeners", &listeners),
            ("gateways", &gateways),
            ("admin", self.admin.as_deref().unwrap_or_default()),
            ("store", store),
            ("config", &config),
            ("policies", &policies),
            ("workers", &workers),
        ];
        let fields: Vec<_> = all.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        log::emit_for_programs("started", "requests are answered", &fields);
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for listener in self.listeners {
            let _ = writeln!(text, "listening on {}", self.url(listener));
        }
        for bound in self.gateways {
            let _ = writeln!(text, "gateway on {}", self.url(&(Transport::Http, bound.clone())));
        }
        match self.upstream {
            _ if self.gateways.is_empty() => {}
            Some(upstream) => _ = writeln!(text, "forwarding to {upstream}"),
            None => text += "forwarding by the routes in the configuration\n",
        }
        if let Some(admin) = &self.admin {
            let _ = writeln!(text, "admin on {admin}");
        }
        let (version, workers) = (env!("CARGO_PKG_VERSION"), self.workers);
        let (s, most) = (if workers == 1 { "" } else { "s" }, self.bounds.max_connections);
        let _ = writeln!(
            text,
            "tidegate {version}: {workers} worker{s}, at most {most} connections per listener"
        );
        let _ = writeln!(text, "store: {}", self.store);
        if let Some(instances) = self.shared_by {
            let _ = writeln!(text, "without Redis: {}", without_store(self.plan, instances));
        }
        if let Some(traces) = self.traces {
            let _ = writeln!(text, "traces: {traces}");
        }
        let _ = match self.config {
            Some(path) => {
                writeln!(text, "config: {}, reloaded when it changes and on SIGHUP", path.display())
            }
            None => {
                writeln!(text, "config: a demo policy; `tidegate init` prints a file for --config")
            }
        };
        self.policies(&mut text);
        // Hints are for the user's own file.
        if self.config.is_some() {
            text += &hints(self.plan);
        }
        if let Some(gateway) = self.gateways.first() {
            let _ = writeln!(text, "try: {}", self.command(gateway, "/", ""));
        } else if let Some(listener) =
            self.listeners.iter().find(|(transport, _)| *transport == Transport::Http)
        {
            let _ = writeln!(text, "try: {}", self.try_it(listener));
        }
        text
    }

    fn url(&self, (transport, bound): &(Transport, BoundAddress)) -> String {
        let scheme = transport.scheme(self.cert.is_some());
        match bound {
            BoundAddress::Tcp(address) => format!("{scheme}://{address}"),
            BoundAddress::Unix(path) => format!("{scheme}+unix:{}", path.display()),
        }
    }

    fn policies(&self, text: &mut String) {
        let plan = self.plan;
        *text += "policies:\n";
        for policy in plan.policies().iter().take(MAX_SHOWN) {
            describe(policy, plan.domains().is_empty(), text);
        }
        if let Some(more) = plan.policies().len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more");
        }
    }

    /// A command that sends an example of a check.
    fn try_it(&self, (_, bound): &(Transport, BoundAddress)) -> String {
        self.command(bound, "/v1/check", &format!(" -d '{}'", example_request(self.plan)))
    }

    /// A command that sends a request to a path. `rest` is what follows the URL.
    fn command(&self, bound: &BoundAddress, path: &str, rest: &str) -> String {
        let trust = self.cert.map(|cert| format!(" --cacert {}", cert.display()));
        let trust = trust.unwrap_or_default();
        let scheme = if trust.is_empty() { "http" } else { "https" };
        match bound {
            BoundAddress::Tcp(address) => {
                // A listener on every address of the machine is reached at any of them.
                let address = match (address.ip().is_unspecified(), address.port()) {
                    (true, port) => format!("localhost:{port}"),
                    (false, _) => address.to_string(),
                };
                format!("curl -i{trust} {scheme}://{address}{path}{rest}")
            }
            BoundAddress::Unix(socket) => {
                let socket = socket.display();
                format!("curl -i{trust} --unix-socket {socket} {scheme}://localhost{path}{rest}")
            }
        }
    }
}

/// What each policy does while the store does not answer.
fn without_store(plan: &Plan, instances: u32) -> String {
    let mut parts = Vec::new();
    let local = format!("a share of 1/{instances} of each limit, by this instance alone");
    for (mode, what) in [
        (OnStoreError::Local, local.as_str()),
        (OnStoreError::Closed, "denied"),
        (OnStoreError::Open, "allowed"),
    ] {
        let policies = plan.policies().iter().filter(|policy| policy.on_store_error() == mode);
        let names: Vec<_> = policies.map(PlannedPolicy::name).collect();
        let more = names.len().saturating_sub(MAX_NAMED);
        let shown = names.get(..MAX_NAMED).unwrap_or(&names).join(", ");
        match more {
            _ if names.is_empty() => {}
            0 => parts.push(format!("{what} ({shown})")),
            more => parts.push(format!("{what} ({shown} and {more} more)")),
        }
    }
    parts.join("; ")
}

fn describe(policy: &PlannedPolicy, has_attributes: bool, text: &mut String) {
    let (name, mode) = (policy.name(), policy.mode());
    let key: Vec<_> = policy.key().collect();
    let key = match key[..] {
        [] if has_attributes => "all together".to_owned(),
        [] => "descriptor".to_owned(),
        _ => key.join(" and "),
    };
    if policy.rules().is_empty() {
        let _ = writeln!(text, "  {name}: unlimited by {key}, {mode}");
    }
    for rule in policy.rules() {
        let limit = LimitDescription(&rule.limit);
        let _ = writeln!(text, "  {name}: {limit}; by {key}, {mode}");
    }
    if let Some(block) = policy.block() {
        let _ = writeln!(text, "  {name}: a denial blocks for {}", block.span);
    }
}

/// Enough to recognise the file by, if it has ten thousand policies.
const MAX_SHOWN: usize = 20;
const MAX_NAMED: usize = 5;
