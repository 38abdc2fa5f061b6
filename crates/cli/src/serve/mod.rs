//! `tidegate serve`: the server.

mod distance;
mod eviction;
mod files;
mod flags;
mod greeting;
mod signals;
mod size;
mod store;
mod traces;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate::config::{Problems, Source};
use tidegate::{Board, Plan, Store};
use tidegate_server::log::{self, Level, LineWriter};
use tidegate_server::{App, ReloadRequest, Reloaded, Reloader, Server, Tls, TlsReloaded};
use tokio::runtime::Builder;
use tokio::sync::Notify;

use self::distance::{Distance, tightest};
use self::eviction::tell_of_evictions;
pub(crate) use self::flags::Serve;
use self::greeting::Greeting;
pub(crate) use self::signals::Stop;
use self::signals::reload_on_hangup;
use self::store::{Chosen, doubts_of};
use crate::ERROR;
use crate::gateway::Prepared;
use crate::shared_keys::{Fits, redis_of};
use crate::validate::wrong;

impl Serve {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.operate.choose_log();
        let source = match self.config.as_deref().map(Source::read).transpose() {
            Ok(Some(source)) => Some(source),
            Ok(None) => self.gateway.demo()?,
            Err(problems) => return Ok(wrong(&problems)),
        };
        // Compiled once to see where the counters are, which decides how it is compiled for good.
        let plan = match source.as_ref().map(Plan::compile).transpose() {
            Ok(plan) => plan,
            Err(problems) => return Ok(wrong(&problems)),
        };
        let fits = plan.as_ref().and_then(|plan| redis_of(self.store.as_deref(), plan)).map(Fits);
        if let (Some(fits), Some(plan), Some(source)) = (&fits, &plan, &source)
            && let Err(error) = fits.check(plan)
        {
            return Ok(wrong(&Problems::of(source, error.to_string())));
        }
        let fits = fits.map(Arc::new);
        let (store, about) = self.store_of(plan.as_ref())?;
        // For signals and files. The workers have runtimes of their own.
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start a runtime")?;
        let code = runtime.block_on(async {
            match store {
                Chosen::Memory(store) => self.serve(source, *store, about, None).await,
                Chosen::Redis(store) => {
                    let about = about + &doubts_of(&store).await;
                    self.serve(source, *store, about, fits).await
                }
            }
        });
        // A file that is still being read is not waited for.
        runtime.shutdown_background();
        log::finish();
        code
    }

    async fn serve<S: Store + Board + 'static>(
        self,
        source: Option<Source>,
        store: S,
        about: String,
        fits: Option<Arc<Fits>>,
    ) -> anyhow::Result<ExitCode> {
        let shared_by = store.shared_secret().map(|_| self.expected_nodes);
        let app = match &source {
            None => App::demo(store),
            Some(source) => App::load(source, store),
        };
        let app = match app {
            Ok(app) => app.expected_nodes(self.expected_nodes),
            Err(problems) => return Ok(wrong(&problems)),
        };
        let app = if self.operate.shows_keys() { app.showing_keys() } else { app };
        let traces = self.traces.open()?;
        let about_traces = traces.as_ref().map(ToString::to_string);
        let (app, exporting) = match traces {
            Some(traces) => {
                let (tracer, exporting) = traces.start();
                (app.traced_by(tracer), Some(exporting))
            }
            None => (app, None),
        };
        let app = Arc::new(app);
        fits.iter().for_each(|fits| app.followed_by(fits));
        let (workers, mut config) = (self.workers(), self.config()?);
        let (addresses, gateway) = (self.doors()?, self.gateway.prepare(app.limiter().plan())?);
        gateway.iter().for_each(|gateway| gateway.follow(&app));
        let needs = files::Needs {
            connections: config.max_connections,
            listeners: addresses.len() + gateway.as_ref().map_or(0, Prepared::files),
            operators: self.operate.max_connections(),
            workers: workers.get(),
        };
        config.max_connections = needs.allowed();
        let tls = self.tls.load()?.map(Arc::new);
        let mut server = Server::new(Arc::clone(&app), config.clone(), workers);
        let mut doors = Vec::new();
        for (transport, address) in addresses {
            doors.push((transport, server.open(transport, &address, tls.clone())?));
        }
        let gateways = gateway.map(|it| it.open(&mut server, tls.as_ref())).transpose()?;
        let gateways = gateways.unwrap_or_default();
        if doors.is_empty() && gateways.is_empty() {
            bail!("every listener is off: expected an address for one of them, or --upstream");
        }
        // Before the first line is printed: anyone who has read it may send a signal.
        let mut stop = Stop::new().context("cannot listen for signals")?;
        let file = self.config.as_deref().zip(source.as_ref());
        let reload = file.map(|(path, source)| follow(&app, path, source, self.store.is_none()));
        let certificates = tls.clone().map(follow_certificates);
        reload_on_hangup(reload.clone(), certificates.clone())
            .context("cannot listen for signals")?;
        let reload = match certificates {
            Some(wake) => reload.map(|reload| reload.with_certificates(wake)),
            None => reload,
        };
        tokio::spawn(tell_of_the_store(Arc::clone(&app)));
        if app.limiter().store().shared_secret().is_some() {
            tokio::spawn(tell_of_evictions(Arc::clone(&app)));
        }
        // The task that follows the board reports what is wrong with it.
        let _ = app.catch_up().await;
        tokio::spawn(Arc::clone(&app).follow_board());
        tokio::spawn(Arc::clone(&app).follow_roll(self.expected_nodes));
        let admin = self.operate.open(&app, tls, reload, &about).await?;
        let greeting = Greeting {
            doors: &doors,
            gateways: &gateways,
            admin,
            cert: self.tls.cert().map(AsRef::as_ref),
            workers: workers.get(),
            bounds: &config,
            store: &about,
            traces: about_traces.as_deref(),
            shared_by,
            config: self.config.as_deref(),
            plan: &app.limiter().plan(),
        };
        greet(greeting.text());

        let told = Notify::new();
        let mut running = std::pin::pin!(server.run(told.notified()));
        tokio::select! {
            ended = &mut running => return ended.map(|()| ExitCode::SUCCESS).map_err(Into::into),
            () = stop.next() => told.notify_one(),
        }
        let seconds = (config.drain_delay + config.drain_timeout).as_secs();
        let message = format!("stopping within {seconds}s; a second signal stops at once");
        log::say(Level::Info, "stopping", &message, &[]);
        tokio::select! {
            ended = &mut running => ended?,
            () = stop.next() => return Ok(ExitCode::from(ERROR)),
        }
        if let Some(exporting) = exporting {
            exporting.finish().await;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The server runs even if the greeting cannot be printed, or nobody takes it.
fn greet(text: String) {
    let open = || Some(|text: &[u8]| std::io::stdout().lock().write_all(text).unwrap_or_default());
    if let Ok(writer) = LineWriter::start("greeting", MAX_GREETING, open) {
        writer.send(text.into_bytes());
    }
}

/// In bytes.
const MAX_GREETING: usize = 16 << 20;

/// Logs when the store is lost, why, and when it is back; and when it is too far for a deadline.
async fn tell_of_the_store<S: Store + 'static>(app: Arc<App<S>>) {
    let (mut said, mut told, mut distance) = (None, HashSet::new(), Distance::default());
    loop {
        let round_trip = app.limiter().store_report().round_trip;
        if let Some(message) = distance.look(tightest(&app.limiter().plan()), round_trip) {
            log::say(Level::Warn, "store_far", &message, &[]);
        }
        let problem = app.limiter().store_problem();
        match (&said, &problem) {
            (before, Some(problem)) if before.as_ref() != Some(problem) => {
                let message = format!("deciding without the store: {problem}");
                log::say(Level::Warn, "store_lost", &message, &[]);
            }
            (Some(_), None) => {
                log::say(Level::Info, "store_regained", "the store answers again", &[]);
            }
            _ => {}
        }
        said = problem;
        for policy in app.overflowing().await {
            if told.insert(policy.clone()) {
                let message = format!("{policy}: no room for new keys, {SHARED}");
                log::say(Level::Warn, "overflow", &message, &[("policy", &policy)]);
            }
        }
        tokio::time::sleep(LOOK_AT_THE_STORE).await;
    }
}

/// Reloads the policies when their file changes, and when somebody asks for it. `names_store` is
/// whether the file says where the counters are.
fn follow<S: Store + 'static>(
    app: &Arc<App<S>>,
    path: &Path,
    source: &Source,
    names_store: bool,
) -> ReloadRequest {
    let reloader = Reloader::new(Arc::clone(app), path, source);
    let (request, name) = (reloader.request(), path.display().to_string());
    let (app, at_first) = (Arc::clone(app), store_in(&app.limiter().plan()));
    tokio::spawn(reloader.follow(move |reloaded| match reloaded {
        Reloaded::Refused(problems) => {
            let stay = "refused; the policies before it stay in effect";
            let message = format!("{problems}\n{name}: {stay}");
            log::say(Level::Warn, "reload_refused", &message, &[("file", &name)]);
        }
        Reloaded::Changed => {
            log::say(Level::Info, "reload", &format!("{name}: in effect"), &[("file", &name)]);
            if names_store && store_in(&app.limiter().plan()) != at_first {
                log::say(Level::Warn, "restart_needed", STORE_STAYS, &[("file", &name)]);
            }
        }
        Reloaded::FilesChanged => {
            let message = format!("{name}: files that it names have changed, and are in use");
            log::say(Level::Info, "files", &message, &[("file", &name)]);
        }
        Reloaded::FilesRefused(problems) => {
            let (problems, stays) =
                (problems.join("\n"), "refused; what was in it before stays in use");
            let message = format!("{problems}\n{name}: a file that it names is {stays}");
            log::say(Level::Warn, "files_refused", &message, &[("file", &name)]);
        }
        _ => {}
    }));
    request
}

/// Where a file wants its counters.
fn store_in(plan: &Plan) -> String {
    plan.settings().store().unwrap_or("memory").to_owned()
}

const STORE_STAYS: &str = "the counters stay where they are: another store takes effect when the \
    server is started again";

/// The same for certificates.
fn follow_certificates(tls: Arc<Tls>) -> Arc<Notify> {
    let wake = tls.wake();
    tokio::spawn(tls.follow(move |reloaded| match reloaded {
        TlsReloaded::Refused(error) => {
            let message = format!("{error}\nTLS: refused; the certificate before it stays in use");
            log::say(Level::Warn, "certificate_refused", &message, &[]);
        }
        TlsReloaded::Changed => {
            log::say(Level::Info, "certificate", "TLS: a new certificate is in use", &[]);
        }
        TlsReloaded::Unchanged => {}
    }));
    wake
}

const SHARED: &str = "which share counters until others are forgotten; --max-memory makes more room, \
    and a key that nobody can make up needs less";
const LOOK_AT_THE_STORE: Duration = Duration::from_millis(500);
