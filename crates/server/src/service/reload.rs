//! Follows a configuration file and the files that it names: a valid change takes effect immediately,
//! an invalid one changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::Store;
use tidegate::config::{FileProblems, PolicySource, Sections};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::{App, files};

/// Reloads the plan of an [`App`] from one file.
#[derive(Debug)]
pub struct PlanReloader<S> {
    app: Arc<App<S>>,
    path: PathBuf,
    /// The text that was tried last, valid or not: the same text is not tried again.
    last: Option<String>,
    sections: Sections,
    is_refused: bool,
    request: ReloadRequest,
}

/// A handle to request a reload of the configuration and of all files that it names, for a signal or an
/// operator. A requested reload reports problems even if they were reported before.
#[derive(Clone, Debug, Default)]
pub struct ReloadRequest {
    signal: Arc<ReloadSignal>,
    /// Wakes the tasks that follow our own certificates.
    certificates: Vec<Arc<Notify>>,
}

#[derive(Debug, Default)]
struct ReloadSignal {
    /// Wakes the reloader.
    wake: Arc<Notify>,
    is_requested: AtomicBool,
    answer: watch::Sender<ReloadAnswer>,
}

/// The answer to a request for a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadAnswer {
    /// The files that were read.
    pub read: Vec<PathBuf>,
    /// Whether a change was found and took effect.
    pub has_changed: bool,
}

impl ReloadRequest {
    /// Makes requests also wake the tasks that follow certificates.
    #[must_use]
    pub fn with_certificates(self, followers: Vec<Arc<Notify>>) -> Self {
        Self { certificates: followers, ..self }
    }

    /// Requests a reload, and does not wait for it.
    pub fn ask(&self) {
        self.signal.is_requested.store(true, Ordering::Release);
        self.signal.wake.notify_one();
        self.certificates.iter().for_each(|wake| wake.notify_one());
    }

    /// Requests a reload, and waits until the files have been read. `None` if that takes too long.
    pub async fn ask_and_wait(&self) -> Option<ReloadAnswer> {
        let mut answer = self.signal.answer.subscribe();
        self.ask();
        match timeout(PATIENCE, answer.changed()).await {
            Ok(Ok(())) => Some(answer.borrow().clone()),
            _ => None,
        }
    }

    /// Whether a reload was requested since the last call.
    fn take_request(&self) -> bool {
        self.signal.is_requested.swap(false, Ordering::AcqRel)
    }

    /// Restores a request whose reload was discarded, so that the next reload answers it.
    fn ask_again(&self) {
        self.signal.is_requested.store(true, Ordering::Release);
        self.signal.wake.notify_one();
    }

    fn answer(&self, answer: ReloadAnswer) {
        self.signal.answer.send_replace(answer);
    }
}

/// The outcome of a reload.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadOutcome {
    /// Neither the file nor the files that it names have changed.
    Unchanged,
    /// The file has changed, and took effect.
    Changed,
    /// The file is invalid, and the previous plan stays in effect.
    Refused(FileProblems),
    /// Files that the configuration names have changed, and took effect.
    FilesChanged,
    /// Files that the configuration names are invalid, with the problem of each. Their previous contents
    /// stay in effect.
    FilesRefused(Vec<String>),
}

impl<S: Store + 'static> PlanReloader<S> {
    /// A reloader for a file whose current text, `loaded`, is already in effect.
    pub fn new(app: Arc<App<S>>, path: impl Into<PathBuf>, loaded: &PolicySource) -> Self {
        let last = Some(loaded.text().to_owned());
        let sections = loaded.sections();
        let request = ReloadRequest::default();
        Self { app, path: path.into(), last, sections, is_refused: false, request }
    }

    /// A handle to request a reload from [`follow`](Self::follow).
    pub fn request(&self) -> ReloadRequest {
        self.request.clone()
    }

    /// Reads the file and, if it is valid and has changed, puts it into effect. The same for the files
    /// that it names. A problem that persists is reported again only on request.
    pub fn reload(&mut self) -> ReloadOutcome {
        self.reload_if(&|| true)
    }

    /// The same, unless a file was written while it was read.
    fn reload_if(&mut self, is_whole: &dyn Fn() -> bool) -> ReloadOutcome {
        let is_requested = self.request.take_request();
        let Some(reloaded) = self.look(is_requested, is_whole) else {
            // The next reload answers the request.
            if is_requested {
                self.request.ask_again();
            }
            return ReloadOutcome::Unchanged;
        };
        if is_requested {
            let has_changed =
                matches!(reloaded, ReloadOutcome::Changed | ReloadOutcome::FilesChanged);
            self.request.answer(ReloadAnswer { read: self.paths(), has_changed });
        }
        reloaded
    }

    fn look(&mut self, is_requested: bool, is_whole: &dyn Fn() -> bool) -> Option<ReloadOutcome> {
        let source = PolicySource::read(&self.path);
        let source = source.map(|source| source.with_sections(self.sections));
        let have_changed = self.app.extensions().files().have_changed();
        if !is_whole() {
            return None;
        }
        if self.is_refused && (is_requested || have_changed) {
            // The same text may be valid now: a file that it names may exist by now.
            self.last = None;
        }
        let is_due = is_requested || have_changed;
        let reloaded = match self.try_source(source) {
            ReloadOutcome::Unchanged if is_due => self.refresh(have_changed),
            // The files of the plan in effect are refreshed even though the new plan is refused.
            ReloadOutcome::Refused(problems) if is_due => {
                self.app.record_file_problems(&self.app.extensions().refresh());
                ReloadOutcome::Refused(problems)
            }
            reloaded => reloaded,
        };
        match &reloaded {
            ReloadOutcome::Changed => self.is_refused = false,
            ReloadOutcome::Refused(_) => self.is_refused = true,
            _ => {}
        }
        Some(reloaded)
    }

    /// Reads the files of the plan in effect again.
    fn refresh(&self, have_changed: bool) -> ReloadOutcome {
        let problems = self.app.extensions().refresh();
        self.app.record_file_problems(&problems);
        if !problems.is_empty() {
            self.app.count_reload(false);
            return ReloadOutcome::FilesRefused(problems);
        }
        if !have_changed {
            return ReloadOutcome::Unchanged;
        }
        self.app.count_reload(true);
        ReloadOutcome::FilesChanged
    }

    /// The configuration file, and the files that it names.
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.path.clone()];
        paths.extend(self.app.extensions().files().paths().map(Path::to_owned));
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    fn try_source(&mut self, source: Result<PolicySource, FileProblems>) -> ReloadOutcome {
        let source = match source {
            Ok(source) if self.last.as_deref() == Some(source.text()) => {
                return ReloadOutcome::Unchanged;
            }
            Ok(source) => source,
            Err(problems) => {
                // There is no text to remember. The problem is remembered instead, so that it is
                // reported once.
                let problem = problems.to_string();
                if self.last.as_ref() == Some(&problem) {
                    return ReloadOutcome::Unchanged;
                }
                self.last = Some(problem);
                self.app.record_reload(Err(&problems));
                return ReloadOutcome::Refused(problems);
            }
        };
        let outcome = self.app.reload(&source);
        self.last = Some(source.text().to_owned());
        match outcome {
            Ok(()) => {
                self.app.record_reload(Ok(()));
                ReloadOutcome::Changed
            }
            Err(problems) => {
                self.app.record_reload(Err(&problems));
                ReloadOutcome::Refused(problems)
            }
        }
    }

    /// Follows the configuration and the files that it names forever, and passes every change to `report`.
    pub async fn follow(self, report: impl Fn(&ReloadOutcome) + Send + Sync + 'static) {
        let wake = Arc::clone(&self.request.signal.wake);
        let report = Arc::new(report);
        let look = move |mut reloader: Self, is_whole: &dyn Fn() -> bool| {
            let reloaded = reloader.reload_if(is_whole);
            if !matches!(reloaded, ReloadOutcome::Unchanged) {
                report(&reloaded);
            }
            reloader
        };
        files::follow(self, Self::paths, wake, look).await;
    }
}

/// Longer than a large file takes to compile.
const PATIENCE: Duration = Duration::from_secs(5);
