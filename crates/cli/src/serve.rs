//! `tidegate serve`: the server.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tidegate::config::{Described, KeyFormat as Template, PlannedPolicy, Source};
use tidegate::{KeyFormat, MemoryStore, Plan, RedisConfig, RedisStore, RedisStoreBuilder, Store};
use tidegate_server::{App, Config, Reloaded, Reloader, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::gateway::{GatewayArgs, Open};
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
    /// Where the counters are: memory, redis://, rediss://, redis+unix://, redis+sentinel:// or
    /// redis+cluster://; as the configuration says unless said here
    #[arg(long, env = "TIDEGATE_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<String>,
    /// The deployment's secret, under which keys are hashed in Redis: the same in all instances
    #[arg(long, env = "TIDEGATE_SECRET", value_name = "TEXT", hide_env_values = true)]
    secret: Option<String>,
    /// How many instances share the limits: each has its part of them while Redis is away
    #[arg(long, env = "TIDEGATE_EXPECTED_NODES", value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    expected_nodes: u32,
    #[command(flatten)]
    gateway: GatewayArgs,
}

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let source = match self.config.as_deref().map(Source::read).transpose() {
            Ok(Some(source)) => Some(source),
            Ok(None) => self.gateway.demo()?,
            Err(problems) => return Ok(wrong(&problems)),
        };
        // Once to see where the counters are, which decides how it is compiled for good.
        let settled = source.as_ref().map(Plan::compile).transpose();
        let plan = match settled {
            Ok(plan) => plan,
            Err(problems) => return Ok(wrong(&problems)),
        };
        let store = self.store_of(plan.as_ref())?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start a runtime")?;
        runtime.block_on(async {
            match store {
                Chosen::Memory => {
                    let store = MemoryStore::builder().max_keys(MAX_KEYS).build();
                    let about = format!("memory, at most {MAX_KEYS} keys");
                    self.serve(source, store, about).await
                }
                Chosen::Redis(store, about) => {
                    let about = format!("{about}{}", doubts_of(&store).await);
                    self.serve(source, *store, about).await
                }
            }
        })
    }

    async fn serve<S: Store + 'static>(
        self,
        source: Option<Source>,
        store: S,
        about: String,
    ) -> anyhow::Result<ExitCode> {
        let listener = bind(&self.http).await?;
        let app = match &source {
            None => App::demo(store),
            Some(source) => App::load(source, store),
        };
        let app = match app {
            Ok(app) => Arc::new(app.expected_nodes(self.expected_nodes)),
            Err(problems) => return Ok(wrong(&problems)),
        };
        let gateway = self.gateway.open(app.limiter().plan()).await?;
        // Before the first line is printed: whoever has read it may send a signal.
        let stop = Stop::new().context("cannot listen for signals")?;
        if let (Some(path), Some(source)) = (&self.config, &source) {
            follow(&app, path, source)?;
        }
        tokio::spawn(tell_of_the_store(Arc::clone(&app)));
        let doors = gateway.as_ref().map(Open::greeting).unwrap_or_default();
        print(&(doors + &greeting(listener.local_addr()?, &app, &about)));
        let (stop_now, stopped) = watch::channel(false);
        let mut gateways = gateway.map(|it| it.serve(&app, &stopped)).unwrap_or_default();
        let told = async {
            stop.wait().await;
            stop_now.send_replace(true);
        };
        serve(listener, app, Config::default(), told).await;
        while gateways.join_next().await.is_some() {}
        Ok(ExitCode::SUCCESS)
    }

    /// Where the counters are: as the command line says, else as the file does.
    fn store_of(&self, plan: Option<&Plan>) -> anyhow::Result<Chosen> {
        let settings = plan.map(Plan::settings);
        let url = self.store.as_deref().or_else(|| settings.and_then(|settings| settings.store()));
        match url {
            None | Some("memory") => Ok(Chosen::Memory),
            Some(url) => {
                let config: RedisConfig = url.parse()?;
                let about = config.to_string();
                let mut builder = RedisStore::builder(config)
                    .secret(self.secret.as_deref().unwrap_or_default())
                    .deadline(deadline_of(plan));
                if let Some(template) = key_format_of(plan)? {
                    builder = builder.key_format(template.parse::<KeyFormat>()?)?;
                }
                Ok(Chosen::Redis(Box::new(builder.build()), about))
            }
        }
    }
}

/// As long as the most patient policy wants to wait.
fn deadline_of(plan: Option<&Plan>) -> Duration {
    let policies = plan.map(Plan::policies).unwrap_or_default();
    let longest = policies.iter().map(PlannedPolicy::store_deadline).max();
    longest.map_or(RedisStoreBuilder::DEFAULT_DEADLINE, Into::into)
}

/// The one template of all policies: a store has one way to name its keys.
fn key_format_of(plan: Option<&Plan>) -> anyhow::Result<Option<&str>> {
    let policies = plan.map(Plan::policies).unwrap_or_default();
    let mut templates = policies.iter().map(|policy| policy.key_format().map(Template::template));
    let first = templates.next().flatten();
    if templates.any(|other| other != first) {
        bail!("policies of one store share one key_format: expected the same for all, or for none");
    }
    Ok(first)
}

/// Says when the store is lost, and when it is back.
async fn tell_of_the_store<S: Store + 'static>(app: Arc<App<S>>) {
    let mut said = None;
    loop {
        let problem = app.limiter().store_problem();
        match (&said, &problem) {
            (None, Some(problem)) => eprintln!("deciding without the store: {problem}"),
            (Some(_), None) => eprintln!("the store answers again"),
            _ => {}
        }
        said = problem;
        tokio::time::sleep(LOOK_AT_THE_STORE).await;
    }
}

/// Where the counters are.
enum Chosen {
    Memory,
    Redis(Box<RedisStore>, String),
}

/// What an operator should know about Redis, in lines of their own.
async fn doubts_of(store: &RedisStore) -> String {
    store.doubts().await.iter().map(|doubt| format!("\nwarning: {doubt}")).collect()
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

pub(crate) async fn bind(address: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            anyhow!("{address:?} is not an address: expected host:port, such as 127.0.0.1:8080")
        }
        _ => anyhow!("cannot listen on {address:?}: {error}"),
    })
}

fn greeting<S: Store>(address: SocketAddr, app: &App<S>, store: &str) -> String {
    let plan = app.limiter().plan();
    let mut text = format!("listening on http://{address}\n");
    text += &format!("store: {store}\npolicies:\n");
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
const LOOK_AT_THE_STORE: Duration = Duration::from_millis(500);
/// Of ten thousand policies, enough to recognise the file by.
const MAX_SHOWN: usize = 20;
