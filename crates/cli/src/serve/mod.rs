//! `tidegate serve`: starts the server, follows its files, and stops it on a signal.

mod args;
mod eviction;
mod following;
mod listeners;
mod open_files;
mod round_trip;
mod signals;
pub(crate) mod size;
mod startup_message;
mod store;
mod traces;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use tidegate::config::{FileProblems, PolicySource};
use tidegate::{Plan, SharedSettings, Store};
use tidegate_server::App;
use tidegate_server::log::{self, LineWriter};
use tokio::runtime::Builder;

pub(crate) use self::args::ServeCommand;
use self::following::{follow_all_certificates, follow_policies, follow_store};
pub(crate) use self::signals::StopSignals;
use self::startup_message::StartupMessage;
use self::store::{StoreChoice, store_warnings};
use crate::shared_keys::{SharedKeyCheck, redis_config};
use crate::source::read_file;
use crate::validate::print_problems;

impl ServeCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(file) = &self.stray {
            let file = file.display();
            bail!("{file} is not an option of `serve`: expected --config {file}");
        }
        self.operate.set_log_format();
        let source = match self.config.as_deref().map(read_file).transpose() {
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
        let shared_by = store.profile().shared_secret.map(|_| self.expected_nodes);
        let app = match self.app(source.as_ref(), store) {
            Ok(app) => app,
            Err(problems) => return Ok(print_problems(&problems)),
        };
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
        key_check.iter().for_each(|key_check| app.add_extension(key_check));
        let opened = self.open_listeners(&app)?;
        // Before the startup message is printed: its reader may send a signal.
        let stop = StopSignals::new().context("cannot listen for signals")?;
        let admin_tls = match self.operate.client_ca() {
            Some(ca) => self.tls.load_with(Some(ca))?.map(Arc::new),
            None => None,
        };
        let file = self.config.as_deref().zip(source.as_ref());
        let reload =
            file.map(|(path, source)| follow_policies(&app, path, source, self.store.is_none()));
        let reload = follow_all_certificates(opened.tls.iter().chain(&admin_tls), reload)?;
        follow_store(&app, self.expected_nodes).await;
        let admin =
            self.operate.open(&app, admin_tls.or(opened.tls.clone()), reload, &about).await?;
        let startup = StartupMessage {
            listeners: &opened.listeners,
            gateways: &opened.gateways,
            upstream: self.gateway.upstream(),
            admin,
            cert: self.tls.cert().map(AsRef::as_ref),
            workers: self.workers().get(),
            bounds: &opened.config,
            store: &about,
            traces: about_traces.as_deref(),
            shared_by,
            config: self.config.as_deref(),
            plan: &app.limiter().plan(),
        };
        print_startup_message(startup.text());
        startup.log();
        let code = opened.run_until_stopped(stop).await?;
        log_stop(code);
        if let Some(exporting) = exporting.filter(|_| code == ExitCode::SUCCESS) {
            exporting.finish().await;
        }
        Ok(code)
    }

    /// The server's state, with the policies of the file or of a demo.
    fn app<S: Store + SharedSettings + 'static>(
        &self,
        source: Option<&PolicySource>,
        store: S,
    ) -> Result<App<S>, FileProblems> {
        let app = match source {
            None => App::demo(store),
            Some(source) => App::load(source, store),
        }?;
        let app = app.expected_nodes(self.expected_nodes);
        let app = app.with_rights(self.rights());
        Ok(if self.operate.shows_keys() { app.with_shown_keys() } else { app })
    }
}

fn log_stop(code: ExitCode) {
    let how = match code == ExitCode::SUCCESS {
        true => "every request that had arrived was answered",
        false => "immediately, by a second signal",
    };
    log::emit_for_programs("stopped", how, &[]);
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
