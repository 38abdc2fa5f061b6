//! The tasks beside a running server: they follow its files, its store and the other instances.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate::config::PolicySource;
use tidegate::{Plan, SharedSettings, Store};
use tidegate_server::log::{self, LogLevel};
use tidegate_server::{
    App, ListenerTls, PlanReloader, ReloadOutcome, ReloadRequest, TlsReloadOutcome,
};
use tokio::sync::Notify;

use super::eviction::log_eviction_changes;
use super::round_trip::{RoundTripWarning, shortest_deadline};
use super::signals::reload_on_hangup;

/// Starts the tasks that watch the store, and what other instances share in it.
pub(super) async fn follow_store<S: Store + SharedSettings + 'static>(
    app: &Arc<App<S>>,
    expected_nodes: u32,
) {
    tokio::spawn(log_store_changes(Arc::clone(app)));
    if app.limiter().store().profile().is_remote() {
        tokio::spawn(log_eviction_changes(Arc::clone(app)));
    }
    // The task that follows the settings reports errors.
    let _ = app.catch_up().await;
    tokio::spawn(Arc::clone(app).follow_settings());
    tokio::spawn(Arc::clone(app).follow_instances(expected_nodes));
}

/// Reloads certificates when their files change; and with the policies, on SIGHUP and on request.
pub(super) fn follow_all_certificates<'a>(
    certificates: impl Iterator<Item = &'a Arc<ListenerTls>>,
    reload: Option<ReloadRequest>,
) -> anyhow::Result<Option<ReloadRequest>> {
    let certificates: Vec<_> = certificates.cloned().map(follow_certificates).collect();
    reload_on_hangup(reload.clone(), certificates.clone()).context("cannot listen for signals")?;
    Ok(reload.map(|reload| reload.with_certificates(certificates)))
}

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
pub(super) fn follow_policies<S: Store + 'static>(
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
