//! Follows a configuration file: a good change takes effect at once, a bad one changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tidegate::Store;
use tidegate::config::{Problems, Source};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::App;

/// Follows one file on behalf of an [`App`].
#[derive(Debug)]
pub struct Reloader<S> {
    app: Arc<App<S>>,
    path: PathBuf,
    /// What was tried last, good or bad: the same text is not tried again.
    last: Option<String>,
    wake: Arc<Notify>,
}

/// What a reload did.
#[derive(Debug)]
pub enum Reloaded {
    /// The file says what it said before.
    Unchanged,
    /// It took effect.
    Changed,
    /// It is wrong, and the plan before it stays.
    Refused(Problems),
}

impl<S: Store + 'static> Reloader<S> {
    /// For a file whose present text, `loaded`, is in effect already.
    pub fn new(app: Arc<App<S>>, path: impl Into<PathBuf>, loaded: &Source) -> Self {
        let last = Some(loaded.text().to_owned());
        Self { app, path: path.into(), last, wake: Arc::new(Notify::new()) }
    }

    /// Wakes [`follow`](Self::follow) up: somebody asks for a reload.
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Reads the file and, if it is good and new, decides by it from now on.
    pub fn reload(&mut self) -> Reloaded {
        let source = match Source::read(&self.path) {
            Ok(source) if self.last.as_deref() == Some(source.text()) => {
                return Reloaded::Unchanged;
            }
            Ok(source) => source,
            Err(problems) => {
                // Not even text. Remembered by what is said about it, to be said once.
                let said = problems.to_string();
                if self.last.as_ref() == Some(&said) {
                    return Reloaded::Unchanged;
                }
                self.last = Some(said);
                self.app.reloaded(Err(&problems));
                return Reloaded::Refused(problems);
            }
        };
        let outcome = self.app.limiter().reload(&source);
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

    /// Follows the file for ever, and tells `report` about every change. Watches directories and
    /// not the file itself: editors replace files, and Kubernetes swaps a link beside them. Looks
    /// from time to time even so, since not every file system tells.
    pub async fn follow(mut self, report: impl Fn(&Reloaded)) {
        let mut watcher = Watch::new(&self.wake);
        loop {
            // Watch first, then look: what changes in between wakes us up.
            watcher.cover(&self.path);
            let look = move || {
                let reloaded = self.reload();
                (self, reloaded)
            };
            // The runtime is going down when this fails.
            let Ok((reloader, reloaded)) = tokio::task::spawn_blocking(look).await else { return };
            self = reloader;
            if !matches!(reloaded, Reloaded::Unchanged) {
                report(&reloaded);
            }
            let _ = timeout(LOOK_ANYWAY, self.wake.notified()).await;
            // A file is written in several steps: let them happen.
            sleep(SETTLE).await;
        }
    }
}

/// Watches the directories in which a change may show.
struct Watch {
    watcher: Option<RecommendedWatcher>,
    covered: Vec<PathBuf>,
}

impl Watch {
    fn new(wake: &Arc<Notify>) -> Self {
        let wake = Arc::clone(wake);
        // Where nothing can be watched, looking anyway has to do.
        let watcher = notify::recommended_watcher(move |_| wake.notify_one()).ok();
        Self { watcher, covered: Vec::new() }
    }

    /// The directory of the path, and the one that it leads to through links.
    fn cover(&mut self, path: &Path) {
        let directories = [Some(path.to_owned()), path.canonicalize().ok()];
        let directory = |path: PathBuf| match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
            parent => parent.map(Path::to_owned),
        };
        // By its one name: watched under two, a directory is lost with the first that goes.
        let by_name = |directory: PathBuf| directory.canonicalize().unwrap_or(directory);
        let wanted = directories.into_iter().flatten().filter_map(directory).map(by_name);
        let mut wanted: Vec<_> = wanted.collect();
        wanted.dedup();
        let Some(watcher) = &mut self.watcher else { return };
        for gone in self.covered.iter().filter(|path| !wanted.contains(path)) {
            let _ = watcher.unwatch(gone);
        }
        for new in wanted.iter().filter(|path| !self.covered.contains(path)) {
            let _ = watcher.watch(new, RecursiveMode::NonRecursive);
        }
        self.covered = wanted;
    }
}

const SETTLE: Duration = Duration::from_millis(20);
const LOOK_ANYWAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_watched_under_one_name_and_stays_so_when_the_file_is_gone() {
        let mut watch = Watch::new(&Arc::new(Notify::new()));
        watch.cover(Path::new("Cargo.toml"));
        let covered = watch.covered.clone();
        assert_eq!(covered.len(), 1, "{covered:?}");
        watch.cover(Path::new("gone.toml"));
        assert_eq!(watch.covered, covered);
    }
}
