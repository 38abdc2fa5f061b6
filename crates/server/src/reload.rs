//! Follows a configuration file: a valid change takes effect at once, an invalid one changes
//! nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::Store;
use tidegate::config::{Problems, Source};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::{App, files};

/// Follows one file on behalf of an [`App`].
#[derive(Debug)]
pub struct Reloader<S> {
    app: Arc<App<S>>,
    path: PathBuf,
    /// What was tried last, valid or not: the same text is not tried again.
    last: Option<String>,
    is_refused: bool,
    request: ReloadRequest,
}

/// Asks for a file to be read again, on behalf of a signal or an operator. Anyone who asks is told
/// what is wrong with the file, even if that was reported before.
#[derive(Clone, Debug, Default)]
pub struct ReloadRequest(Arc<Asking>);

#[derive(Debug, Default)]
struct Asking {
    /// Also notified when a file changes, which is not a request.
    wake: Arc<Notify>,
    is_asked: AtomicBool,
    /// How often a request was answered.
    answered: watch::Sender<u64>,
}

impl ReloadRequest {
    /// Asks, and does not wait.
    pub fn ask(&self) {
        self.0.is_asked.store(true, Ordering::Release);
        self.0.wake.notify_one();
    }

    /// Asks, and waits until the file has been read. False if that takes too long.
    pub async fn ask_and_wait(&self) -> bool {
        let mut answered = self.0.answered.subscribe();
        self.ask();
        matches!(timeout(PATIENCE, answered.changed()).await, Ok(Ok(())))
    }

    /// Whether somebody has asked since the last time.
    fn take(&self) -> bool {
        self.0.is_asked.swap(false, Ordering::AcqRel)
    }

    fn answer(&self) {
        self.0.answered.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// What a reload did.
#[derive(Debug)]
pub enum Reloaded {
    /// The file says the same as before.
    Unchanged,
    /// It took effect.
    Changed,
    /// It is wrong, and the previous plan stays.
    Refused(Problems),
}

impl<S: Store + 'static> Reloader<S> {
    /// For a file whose present text, `loaded`, is in effect already.
    pub fn new(app: Arc<App<S>>, path: impl Into<PathBuf>, loaded: &Source) -> Self {
        let last = Some(loaded.text().to_owned());
        Self { app, path: path.into(), last, is_refused: false, request: ReloadRequest::default() }
    }

    /// Asks [`follow`](Self::follow) for a reload.
    pub fn request(&self) -> ReloadRequest {
        self.request.clone()
    }

    /// Reads the file and, if it is valid and new, decides by it from now on. A problem that
    /// persists is reported again only to those who asked.
    pub fn reload(&mut self) -> Reloaded {
        self.reload_if(&|| true)
    }

    /// The same, if what was read is whole.
    fn reload_if(&mut self, is_whole: &dyn Fn() -> bool) -> Reloaded {
        let is_asked = self.request.take();
        if is_asked && self.is_refused {
            // The same text may be good by now: a file that it names may have come.
            self.last = None;
        }
        let Some(reloaded) = self.look(is_whole) else {
            // Whoever has asked is answered by what comes next.
            if is_asked {
                self.request.ask();
            }
            return Reloaded::Unchanged;
        };
        if is_asked {
            self.request.answer();
        }
        reloaded
    }

    fn look(&mut self, is_whole: &dyn Fn() -> bool) -> Option<Reloaded> {
        let source = Source::read(&self.path);
        if !is_whole() {
            return None;
        }
        let reloaded = self.try_source(source);
        match &reloaded {
            Reloaded::Unchanged => {}
            Reloaded::Changed => self.is_refused = false,
            Reloaded::Refused(_) => self.is_refused = true,
        }
        Some(reloaded)
    }

    fn try_source(&mut self, source: Result<Source, Problems>) -> Reloaded {
        let source = match source {
            Ok(source) if self.last.as_deref() == Some(source.text()) => {
                return Reloaded::Unchanged;
            }
            Ok(source) => source,
            Err(problems) => {
                // Not even text. Remembered by what is reported about it, so that it is reported
                // once.
                let said = problems.to_string();
                if self.last.as_ref() == Some(&said) {
                    return Reloaded::Unchanged;
                }
                self.last = Some(said);
                self.app.reloaded(Err(&problems));
                return Reloaded::Refused(problems);
            }
        };
        let outcome = self.app.reload(&source);
        self.last = Some(source.text().to_owned());
        match outcome {
            Ok(()) => {
                self.app.reloaded(Ok(()));
                Reloaded::Changed
            }
            Err(problems) => {
                self.app.reloaded(Err(&problems));
                Reloaded::Refused(problems)
            }
        }
    }

    /// Follows the file forever, and tells `report` about every change.
    pub async fn follow(self, report: impl Fn(&Reloaded) + Send + Sync + 'static) {
        let (paths, wake) = (vec![self.path.clone()], Arc::clone(&self.request.0.wake));
        let report = Arc::new(report);
        let look = move |mut reloader: Self, is_whole: &dyn Fn() -> bool| {
            let reloaded = reloader.reload_if(is_whole);
            if !matches!(reloaded, Reloaded::Unchanged) {
                report(&reloaded);
            }
            reloader
        };
        files::follow(self, paths, wake, look).await;
    }
}

/// Longer than a large file takes.
const PATIENCE: Duration = Duration::from_secs(5);
