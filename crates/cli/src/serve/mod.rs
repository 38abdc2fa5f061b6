//! `tidegate serve`: starts the server, follows its files, and stops it on a signal.

mod args;
mod eviction;
mod open_files;
mod round_trip;
mod signals;
pub(crate) mod size;
mod startup_message;
mod store;
mod traces;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tidegate::config::{FileProblems, PolicySource};
use tidegate::{Plan, SharedSettings, Store};
use tidegate_server::log::{self, LineWriter, LogLevel};
use tidegate_server::{
    App, ListenerTls, PlanReloader, ReloadOutcome, ReloadRequest, Server, TlsReloadOutcome,
    Transport,
};
use tokio::runtime::Builder;
use tokio::sync::Notify;

pub(crate) use self::args::ServeCommand;
use self::eviction::log_eviction_changes;
use self::round_trip::{RoundTripWarning, shortest_deadline};
pub(crate) use self::signals::StopSignals;
use self::signals::reload_on_hangup;
use self::startup_message::StartupMessage;
use self::store::{StoreChoice, store_warnings};
use crate::ERROR;
use crate::gateway::PreparedGateway;
use crate::shared_keys::{SharedKeyCheck, redis_config};
use crate::validate::print_problems;

impl ServeCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(file) = &self.stray {
            let file = file.display();
            bail!("{file} is not an option of `serve`: expected --config {file}");
        }
        self.operate.set_log_format();
        let source = match self.config.as_deref().map(PolicySource::read).transpose() {
            Ok(Some(source)) => Some(source),
            Ok(None) => self.gateway.demo()?,
            Err(problems) => return Ok(print_problems(&problems)),
        };
        // Compiled here to find out where the counters are; the server compiles it for that store.
        let plan = match source.as_ref().map(Plan::compile).transpose() {
            Ok(plan) => plan,
            Err(problems) => return Ok(print_problems(&problems)),
        };
        let key_check = plan
            .as_ref()
            .and_then(|plan| redis_config(self.store.as_deref(), plan))
            .map(SharedKeyCheck);
        if let (Some(key_check), Some(plan), Some(source)) = (&key_check, &plan, &source)
            && let Err(error) = key_check.check(plan)
        {
            return Ok(print_problems(&FileProblems::of(source, error.to_string())));
        }
        let key_check = key_check.map(Arc::new);
        let (store, about) = self.open_store(plan.as_ref())?;
        // For signals and files. The workers have their own runtimes.
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("cannot start a runtime")?;
        let code = runtime.block_on(async {
            match store {
                StoreChoice::Memory(store) => self.serve(source, *store, about, None).await,
                StoreChoice::Redis(store) => {
                    let about = about + &store_warnings(&store).await;
                    self.serve(source, *store, about, key_check).await
                }
            }
        });
        // Do not wait for a file that is still being read.
        runtime.shutdown_background();
        log::finish();
        code
    }

    async fn serve<S: Store + SharedSettings + 'static>(
        self,
        source: Option<PolicySource>,
        store: S,
        about: String,
        key_check: Option<Arc<SharedKeyCheck>>,
    ) -> anyhow::Result<ExitCode> {
        let shared_by = store.shared_secret().map(|_| self.expected_nodes);
        let app = match &source {
            None => App::demo(store),
            Some(source) => App::load(source, store),
        };
        let app = match app {
            Ok(app) => app.expected_nodes(self.expected_nodes),
            Err(problems) => return Ok(print_problems(&problems)),
        };
        let app = if self.operate.shows_keys() { app.with_shown_keys() } else { app };
        let traces = self.traces.open()?;
        let about_traces = traces.as_ref().map(ToString::to_string);
        let (app, exporting) = match traces {
            Some(traces) => {
                let (tracer, exporting) = traces.start();
                (app.with_tracer(tracer), Some(exporting))
            }
            None => (app, None),
        };
        let app = Arc::new(app);
        key_check.iter().for_each(|key_check| app.add_follower(key_check));
        let (workers, mut config) = (self.workers(), self.config()?);
        let (addresses, gateway) = (self.listeners()?, self.gateway.prepare(app.limiter().plan())?);
        gateway.iter().for_each(|gateway| gateway.follow_reloads(&app));
        let needs = open_files::OpenFileNeeds {
            connections: config.max_connections,
            listeners: addresses.len()
                + gateway.as_ref().map_or(0, PreparedGateway::files_per_client),
            operators: self.operate.max_connections(),
            workers: workers.get(),
        };
        config.max_connections = needs.allowed_connections();
        let tls = self.tls.load()?.map(Arc::new);
        let mut server = Server::new(Arc::clone(&app), config.clone(), workers);
        let mut listeners = Vec::new();
        for (transport, address) in addresses {
            let opened = server.open(transport, &address, tls.clone());
            listeners.push((transport, opened.with_context(|| flag(transport))?));
        }
        let gateways =
            gateway.map(|gateway| gateway.open(&mut server, tls.as_ref())).transpose()?;
        let gateways = gateways.unwrap_or_default();
        if listeners.is_empty() && gateways.is_empty() {
            bail!("every listener is off: expected an address for one of them, or --upstream");
        }
        // Before the startup message is printed: its reader may send a signal.
        let mut stop = StopSignals::new().context("cannot listen for signals")?;
        let file = self.config.as_deref().zip(source.as_ref());
        let reload =
            file.map(|(path, source)| follow_policies(&app, path, source, self.store.is_none()));
        let admin_tls = match self.operate.client_ca() {
            Some(ca) => self.tls.load_with(Some(ca))?.map(Arc::new),
            None => None,
        };
        let certificates: Vec<_> =
            tls.iter().chain(&admin_tls).cloned().map(follow_certificates).collect();
        reload_on_hangup(reload.clone(), certificates.clone())
            .context("cannot listen for signals")?;
        let reload = reload.map(|reload| reload.with_certificates(certificates));
        tokio::spawn(log_store_changes(Arc::clone(&app)));
        if app.limiter().store().shared_secret().is_some() {
            tokio::spawn(log_eviction_changes(Arc::clone(&app)));
        }
        // The task that follows the settings reports errors.
        let _ = app.catch_up().await;
        tokio::spawn(Arc::clone(&app).follow_settings());
        tokio::spawn(Arc::clone(&app).follow_instances(self.expected_nodes));
        let admin = self.operate.open(&app, admin_tls.or(tls), reload, &about).await?;
        let startup = StartupMessage {
            listeners: &listeners,
            gateways: &gateways,
            upstream: self.gateway.upstream(),
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
        print_startup_message(startup.text());

        let shutdown = Notify::new();
        let mut running = std::pin::pin!(server.run(shutdown.notified()));
        tokio::select! {
            ended = &mut running => return ended.map(|()| ExitCode::SUCCESS).map_err(Into::into),
            () = stop.next() => shutdown.notify_one(),
        }
        let seconds = (config.drain_delay + config.drain_timeout).as_secs();
        let message = format!("stopping within {seconds}s; a second signal stops immediately");
        log::emit(LogLevel::Info, "stopping", &message, &[]);
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

/// The flag that sets the address of a listener.
const fn flag(transport: Transport) -> &'static str {
    match transport {
        Transport::Grpc => "--grpc",
        Transport::Resp => "--resp",
        _ => "--http",
    }
}

/// Prints in the background: the server runs even if standard output is closed or not read.
fn print_startup_message(text: String) {
    let open = || Some(|text: &[u8]| std::io::stdout().lock().write_all(text).unwrap_or_default());
    if let Ok(writer) = LineWriter::start("greeting", MAX_GREETING, open) {
        writer.send(text.into_bytes());
    }
}

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  stopped by a signal, after the requests in flight were answered
  1  invalid configuration: every problem is listed on standard error
  2  error: an invalid command line, an address that cannot be listened on,
     a file that cannot be read, or certificates that cannot be used;
     or stopped immediately, by a second signal";

/// The most bytes of a startup message.
const MAX_GREETING: usize = 16 << 20;

/// Logs when the store is lost and why, when it is back, when its round trip is too long for a
/// deadline, and when a policy has no room for new keys.
async fn log_store_changes<S: Store + 'static>(app: Arc<App<S>>) {
    let (mut last_problem, mut reported, mut warning) =
        (None, HashSet::new(), RoundTripWarning::default());
    loop {
        let round_trip = app.limiter().store_report().round_trip;
        if let Some(message) = warning.observe(shortest_deadline(&app.limiter().plan()), round_trip)
        {
            log::emit(LogLevel::Warn, "store_far", &message, &[]);
        }
        let problem = app.limiter().store_problem();
        match (&last_problem, &problem) {
            (before, Some(problem)) if before.as_ref() != Some(problem) => {
                let message = format!("deciding without the store: {problem}");
                log::emit(LogLevel::Warn, "store_lost", &message, &[]);
            }
            (Some(_), None) => {
                log::emit(LogLevel::Info, "store_regained", "the store answers again", &[]);
            }
            _ => {}
        }
        last_problem = problem;
        for policy in app.overflowing().await {
            if reported.insert(policy.clone()) {
                let message = format!("{policy}: no room for new keys, {SHARED}");
                log::emit(LogLevel::Warn, "overflow", &message, &[("policy", &policy)]);
            }
        }
        tokio::time::sleep(STORE_CHECK_INTERVAL).await;
    }
}

/// Reloads the policies when their file changes, and on request. `names_store` is whether the file,
/// and not the command line, chooses the store.
fn follow_policies<S: Store + 'static>(
    app: &Arc<App<S>>,
    path: &Path,
    source: &PolicySource,
    names_store: bool,
) -> ReloadRequest {
    let reloader = PlanReloader::new(Arc::clone(app), path, source);
    let (request, name) = (reloader.request(), path.display().to_string());
    let (app, at_first) = (Arc::clone(app), configured_store(&app.limiter().plan()));
    tokio::spawn(reloader.follow(move |reloaded| match reloaded {
        ReloadOutcome::Refused(problems) => {
            let stay = "refused; the previous policies stay in effect";
            let message = format!("{problems}\n{name}: {stay}");
            log::emit(LogLevel::Warn, "reload_refused", &message, &[("file", &name)]);
        }
        ReloadOutcome::Changed => {
            log::emit(LogLevel::Info, "reload", &format!("{name}: in effect"), &[("file", &name)]);
            if names_store && configured_store(&app.limiter().plan()) != at_first {
                log::emit(LogLevel::Warn, "restart_needed", STORE_STAYS, &[("file", &name)]);
            }
        }
        ReloadOutcome::FilesChanged => {
            let message = format!("{name}: files that it names have changed, and are in use");
            log::emit(LogLevel::Info, "files", &message, &[("file", &name)]);
        }
        ReloadOutcome::FilesRefused(problems) => {
            let (problems, stays) =
                (problems.join("\n"), "refused; its previous content stays in use");
            let message = format!("{problems}\n{name}: a file that it names is {stays}");
            log::emit(LogLevel::Warn, "files_refused", &message, &[("file", &name)]);
        }
        _ => {}
    }));
    request
}

/// The store that a file configures.
fn configured_store(plan: &Plan) -> String {
    plan.settings().store().unwrap_or("memory").to_owned()
}

const STORE_STAYS: &str = "the counters stay where they are: another store takes effect \
    after a restart";

/// Reloads certificates when their files change, and when the returned handle is notified.
fn follow_certificates(tls: Arc<ListenerTls>) -> Arc<Notify> {
    let wake = tls.wake();
    tokio::spawn(tls.follow(move |reloaded| match reloaded {
        TlsReloadOutcome::Refused(error) => {
            let message = format!("{error}\nTLS: refused; the previous certificate stays in use");
            log::emit(LogLevel::Warn, "certificate_refused", &message, &[]);
        }
        TlsReloadOutcome::Changed => {
            log::emit(LogLevel::Info, "certificate", "TLS: a new certificate is in use", &[]);
        }
        TlsReloadOutcome::Unchanged => {}
    }));
    wake
}

const SHARED: &str = "which share counters until others expire; --max-memory makes more room, and a \
    key that callers cannot invent needs less";
const STORE_CHECK_INTERVAL: Duration = Duration::from_millis(500);
