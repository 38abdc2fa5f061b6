//! `tidegate serve`: the server.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use tidegate::config::{Described, PlannedPolicy, Source};
use tidegate::{MemoryStore, Plan, Store};
use tidegate_server::{App, Config, Reloaded, Reloader, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::print;
use crate::validate::wrong;

/// What can be said about it.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The policies; a demo unless said. A change takes effect at once, and on SIGHUP
    #[arg(long, env = "TIDEGATE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to answer HTTP; port 0 picks a free one
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080")]
    http: String,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let loaded = match &self.config {
            None => None,
            Some(path) => match load(path) {
                Ok(loaded) => Some(loaded),
                Err(problems) => return Ok(wrong(&problems)),
            },
        };
        let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
        runtime.block_on(self.serve(loaded))
    }

    async fn serve(self, loaded: Option<(Source, Plan)>) -> anyhow::Result<ExitCode> {
        let listener = bind(&self.http).await?;
        let store = MemoryStore::builder().max_keys(MAX_KEYS).build();
        let (app, source) = match loaded {
            None => (Arc::new(App::demo(store)?), None),
            Some((source, plan)) => {
                check_store(&plan)?;
                (Arc::new(App::new(plan, store)), Some(source))
            }
        };
        // Before the first line is printed: whoever has read it may send a signal.
        let stop = Stop::new().context("cannot listen for signals")?;
        if let (Some(path), Some(source)) = (&self.config, &source) {
            follow(&app, path, source)?;
        }
        print(&greeting(listener.local_addr()?, &app));
        serve(listener, app, Config::default(), stop.wait()).await;
        Ok(ExitCode::SUCCESS)
    }
}

fn load(path: &Path) -> Result<(Source, Plan), tidegate::config::Problems> {
    let source = Source::read(path)?;
    let plan = Plan::compile(&source)?;
    Ok((source, plan))
}

/// The address is not shown: it may hold a password.
fn check_store(plan: &Plan) -> anyhow::Result<()> {
    match plan.settings().store() {
        None | Some("memory") => Ok(()),
        Some(_) => bail!("the store of this configuration is not available: expected memory"),
    }
}

/// Reloads the file when it changes, and when a signal asks for it.
fn follow<S: Store + 'static>(
    app: &Arc<App<S>>,
    path: &Path,
    source: &Source,
) -> anyhow::Result<()> {
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    let reloader = Reloader::new(Arc::clone(app), path, source);
    let wake = reloader.wake();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            wake.notify_one();
        }
    });
    let name = path.display().to_string();
    tokio::spawn(reloader.follow(move |reloaded| match reloaded {
        Reloaded::Refused(problems) => {
            eprintln!("{problems}\n{name}: refused; the policies before it stay in effect");
        }
        Reloaded::Changed => eprintln!("{name}: in effect"),
        Reloaded::Unchanged => {}
    }));
    Ok(())
}

async fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            anyhow!("{address:?} is not an address: expected host:port, such as 127.0.0.1:8080")
        }
        _ => anyhow!("cannot listen on {address:?}: {error}"),
    })
}

fn greeting<S: Store>(address: SocketAddr, app: &App<S>) -> String {
    let plan = app.limiter().plan();
    let mut text = format!("listening on http://{address}\n");
    text += &format!("store: memory, at most {MAX_KEYS} keys\npolicies:\n");
    for policy in plan.policies().iter().take(MAX_SHOWN) {
        describe(policy, plan.domains().is_empty(), &mut text);
    }
    if let Some(more) = plan.policies().len().checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more");
    }
    let body = try_it(&plan);
    let _ = writeln!(text, "try: curl -i http://{address}/v1/check -d '{body}'");
    text
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
        let limit = Described(&rule.limit);
        let _ = writeln!(text, "  {name}: {limit}; by {key}, {mode}");
    }
}

/// A request that the first policy with one attribute understands.
fn try_it(plan: &Plan) -> String {
    match plan.policies().iter().find(|policy| policy.key().len() == 1) {
        Some(policy) => format!(r#"{{"policy": "{}", "key": "alice"}}"#, policy.name()),
        None => r#"{"attributes": {"user": "alice"}}"#.to_owned(),
    }
}

/// The signals that end a server.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt })
    }

    async fn wait(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

const MAX_KEYS: usize = 1_000_000;
/// Of ten thousand policies, enough to recognise the file by.
const MAX_SHOWN: usize = 20;
