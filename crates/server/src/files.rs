//! Follows files: their directories tell when one changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Looks at `subject` forever: now, when one of its files changes, when `wake` is notified, and
/// from time to time regardless, since not every file system reports changes.
///
/// Watches directories rather than the files themselves: editors replace files, and Kubernetes
/// swaps a link beside them. Looking may read files, and is kept off the runtime's own thread.
pub(crate) async fn follow<T: Send + 'static>(
    mut subject: T,
    paths: Vec<PathBuf>,
    wake: Arc<Notify>,
    look: impl Fn(T) -> T + Clone + Send + 'static,
) {
    let mut watch = Watch::new(&wake);
    loop {
        // Watch first, then look: a change in between wakes us up.
        watch.cover(&paths);
        let look = look.clone();
        // This fails when the runtime is shutting down.
        let Ok(seen) = tokio::task::spawn_blocking(move || look(subject)).await else { return };
        subject = seen;
        let _ = timeout(LOOK_ANYWAY, wake.notified()).await;
        // A file is written in several steps: let them happen.
        sleep(SETTLE).await;
    }
}

/// Watches the directories in which a change may show up.
struct Watch {
    watcher: Option<RecommendedWatcher>,
    covered: Vec<PathBuf>,
}

impl Watch {
    fn new(wake: &Arc<Notify>) -> Self {
        let wake = Arc::clone(wake);
        // If nothing can be watched, looking periodically has to do.
        let watcher = notify::recommended_watcher(move |_| wake.notify_one()).ok();
        Self { watcher, covered: Vec::new() }
    }

    /// The directories of these paths, and those that they lead to through links.
    fn cover(&mut self, paths: &[PathBuf]) {
        let led_to = paths.iter().filter_map(|path| path.canonicalize().ok());
        let directories = paths.iter().cloned().chain(led_to).filter_map(|path| directory(&path));
        // By its canonical name: watched under two names, a directory is lost with the first that
        // goes.
        let by_name = |directory: PathBuf| directory.canonicalize().unwrap_or(directory);
        let mut wanted: Vec<_> = directories.map(by_name).collect();
        wanted.sort_unstable();
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

fn directory(path: &Path) -> Option<PathBuf> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
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
        watch.cover(&["Cargo.toml".into(), "./src/../Cargo.lock".into()]);
        let covered = watch.covered.clone();
        assert_eq!(covered.len(), 1, "{covered:?}");
        watch.cover(&["gone.toml".into()]);
        assert_eq!(watch.covered, covered);
    }
}
