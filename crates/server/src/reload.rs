//! Follows a configuration file and the files that it names: a valid change takes effect at once, an
//! invalid one changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::Store;
use tidegate::config::{FileProblems, PolicySource};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::{App, files};

/// Follows one file on behalf of an [`App`].
#[derive(Debug)]
pub struct PlanReloader<S> {
    app: Arc<App<S>>,
    path: PathBuf,
    /// What was tried last, valid or not: the same text is not tried again.
    last: Option<String>,
    is_refused: bool,
    request: ReloadRequest,
}

/// Asks for a file to be read again, on behalf of a signal or an operator, with all files that it names.
/// Anyone who asks is told what is wrong with them, even if that was reported before.
#[derive(Clone, Debug, Default)]
pub struct ReloadRequest {
    signal: Arc<ReloadSignal>,
    /// Wakes whoever follows our own certificates.
    certificates: Vec<Arc<Notify>>,
}

#[derive(Debug, Default)]
struct ReloadSignal {
    /// Also notified when a file changes, which is not a request.
    wake: Arc<Notify>,
    is_asked: AtomicBool,
    answered: watch::Sender<ReloadAnswer>,
}

/// What became of a request for a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadAnswer {
    /// The files that were read.
    pub read: Vec<PathBuf>,
    /// Whether anything in them was new, and took effect.
    pub has_changed: bool,
}

impl ReloadRequest {
    /// The same, which also wakes those who follow certificates, so that they read them again.
    #[must_use]
    pub fn with_certificates(self, followers: Vec<Arc<Notify>>) -> Self {
        Self { certificates: followers, ..self }
    }

    /// Asks, and does not wait.
    pub fn ask(&self) {
        self.signal.is_asked.store(true, Ordering::Release);
        self.signal.wake.notify_one();
        self.certificates.iter().for_each(|wake| wake.notify_one());
    }

    /// Asks, and waits until the files have been read. `None` if that takes too long.
    pub async fn ask_and_wait(&self) -> Option<ReloadAnswer> {
        let mut answered = self.signal.answered.subscribe();
        self.ask();
        match timeout(PATIENCE, answered.changed()).await {
            Ok(Ok(())) => Some(answered.borrow().clone()),
            _ => None,
        }
    }

    /// Whether somebody has asked since the last time.
    fn take_request(&self) -> bool {
        self.signal.is_asked.swap(false, Ordering::AcqRel)
    }

    /// What was read does not count: it is read once more on behalf of whoever has asked.
    fn ask_again(&self) {
        self.signal.is_asked.store(true, Ordering::Release);
        self.signal.wake.notify_one();
    }

    fn answer(&self, answer: ReloadAnswer) {
        self.signal.answered.send_replace(answer);
    }
}

/// What a reload did.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReloadOutcome {
    /// The file says the same as before, and so do those that it names.
    Unchanged,
    /// It took effect.
    Changed,
    /// It is wrong, and the previous plan stays.
    Refused(FileProblems),
    /// Files that it names say something else than before, which took effect.
    FilesChanged,
    /// Files that it names are wrong: for each of them, why. What was in these before stays in effect.
    FilesRefused(Vec<String>),
}

impl<S: Store + 'static> PlanReloader<S> {
    /// For a file whose present text, `loaded`, is in effect already.
    pub fn new(app: Arc<App<S>>, path: impl Into<PathBuf>, loaded: &PolicySource) -> Self {
        let last = Some(loaded.text().to_owned());
        Self { app, path: path.into(), last, is_refused: false, request: ReloadRequest::default() }
    }

    /// Asks [`follow`](Self::follow) for a reload.
    pub fn request(&self) -> ReloadRequest {
        self.request.clone()
    }

    /// Reads the file and, if it is valid and new, decides by it from now on. The same for files that it
    /// names. A problem that persists is reported again only to those who asked.
    pub fn reload(&mut self) -> ReloadOutcome {
        self.reload_if(&|| true)
    }

    /// The same, if what was read is whole.
    fn reload_if(&mut self, is_whole: &dyn Fn() -> bool) -> ReloadOutcome {
        let is_asked = self.request.take_request();
        let Some(reloaded) = self.look(is_asked, is_whole) else {
            // Whoever has asked is answered by what comes next.
            if is_asked {
                self.request.ask_again();
            }
            return ReloadOutcome::Unchanged;
        };
        if is_asked {
            let has_changed =
                matches!(reloaded, ReloadOutcome::Changed | ReloadOutcome::FilesChanged);
            self.request.answer(ReloadAnswer { read: self.paths(), has_changed });
        }
        reloaded
    }

    fn look(&mut self, is_asked: bool, is_whole: &dyn Fn() -> bool) -> Option<ReloadOutcome> {
        let source = PolicySource::read(&self.path);
        let have_changed = self.app.followers().files().have_changed();
        if !is_whole() {
            return None;
        }
        if self.is_refused && (is_asked || have_changed) {
            // The same text may be good by now: a file that it names may have come.
            self.last = None;
        }
        let is_due = is_asked || have_changed;
        let reloaded = match self.try_source(source) {
            ReloadOutcome::Unchanged if is_due => self.refresh(have_changed),
            // The plan in effect names files too, whatever is wrong with the one that would replace it.
            ReloadOutcome::Refused(problems) if is_due => {
                self.app.record_file_problems(&self.app.followers().refresh());
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

    /// Reads the files again that the plan in effect names.
    fn refresh(&self, have_changed: bool) -> ReloadOutcome {
        let problems = self.app.followers().refresh();
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

    /// The file, and those that it names.
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.path.clone()];
        paths.extend(self.app.followers().files().paths().map(Path::to_owned));
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
                // Not even text. Remembered by what is reported about it, so that it is reported
                // once.
                let said = problems.to_string();
                if self.last.as_ref() == Some(&said) {
                    return ReloadOutcome::Unchanged;
                }
                self.last = Some(said);
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

    /// Follows the file and those that it names forever, and tells `report` about every change.
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

/// Longer than a large file takes.
const PATIENCE: Duration = Duration::from_secs(5);
