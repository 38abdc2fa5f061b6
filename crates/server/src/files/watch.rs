//! Watches the directories in which a change of a file shows.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher, WatcherKind};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Watches directories rather than the files themselves: editors replace files, and Kubernetes
/// swaps a link beside them.
pub(super) struct DirectoryWatch {
    watcher: Option<RecommendedWatcher>,
    covered: Vec<WatchedDirectory>,
    signs: Arc<Mutex<WatchEvents>>,
}

/// A directory, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedDirectory {
    path: PathBuf,
    id: (u64, u64),
}

impl DirectoryWatch {
    /// Notifies `changed` when a file that is covered may have changed.
    pub(super) fn new(changed: &Arc<Notify>) -> Self {
        let signs = Arc::new(Mutex::new(WatchEvents::default()));
        let (changed, seen) = (Arc::clone(changed), Arc::clone(&signs));
        let tell = move |event: notify::Result<Event>| {
            // The file system is asked before anything is locked: it may hang.
            let means_a_change = |event: Event| {
                let begins = begins_to_be_written(&event);
                seen.lock().is_change(&event, begins)
            };
            if event.map_or(true, means_a_change) {
                changed.notify_one();
            }
        };
        // If nothing can be watched, looking periodically has to do.
        Self { watcher: notify::recommended_watcher(tell).ok(), covered: Vec::new(), signs }
    }

    /// Whether somebody is writing one of the files.
    pub(super) fn has_writer(&self) -> bool {
        !self.signs.lock().written.is_empty()
    }

    /// Watches all places in which a change of these files may show up.
    pub(super) fn cover(&mut self, paths: &[PathBuf]) {
        // A directory may come while the one above it is not watched yet: look once more.
        for _ in 0..ATTEMPTS {
            let (wanted, names) = (directories(paths), names(paths));
            let gone = self.signs.lock().expect_of(names, &wanted);
            self.covered.retain(|it| !gone.contains(&it.path));
            if self.covered == wanted {
                return;
            }
            self.watch(wanted);
        }
    }

    fn watch(&mut self, wanted: Vec<WatchedDirectory>) {
        let Some(watcher) = &mut self.watcher else { return };
        let (kept, left): (Vec<_>, Vec<_>) =
            self.covered.drain(..).partition(|it| wanted.contains(it));
        for directory in left {
            let _ = watcher.unwatch(&directory.path);
        }
        for new in wanted.iter().filter(|it| !kept.contains(it)) {
            // What has gone may still be watched under this name, wherever it is now.
            let _ = watcher.unwatch(&new.path);
            let _ = watcher.watch(&new.path, RecursiveMode::NonRecursive);
        }
        self.covered = wanted;
    }
}

/// What was reported about the files.
#[derive(Debug, Default)]
struct WatchEvents {
    /// By the names under which they are watched.
    files: Vec<PathBuf>,
    /// Those that were written, and not closed yet.
    written: Vec<PathBuf>,
    directories: Vec<PathBuf>,
    /// Those that were deleted or moved away. One that is made again is another, even if it has
    /// the same number.
    gone: Vec<PathBuf>,
}

impl WatchEvents {
    /// From now on, of these. Returns which directories have gone.
    fn expect_of(&mut self, files: Vec<PathBuf>, directories: &[WatchedDirectory]) -> Vec<PathBuf> {
        self.files = files;
        self.directories = directories.iter().map(|it| it.path.clone()).collect();
        std::mem::take(&mut self.gone)
    }

    /// Whether one of the files may be another now. That a file was read means nothing: it was
    /// probably us. `begins` says that one has come to be written.
    fn is_change(&mut self, event: &Event, begins: bool) -> bool {
        let is_ours = self.files.iter().any(|file| event.paths.contains(file));
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => {
                self.close(event);
                is_ours
            }
            EventKind::Access(_) => false,
            EventKind::Modify(ModifyKind::Data(_)) => {
                self.open(event);
                is_ours
            }
            EventKind::Modify(ModifyKind::Metadata(_)) => is_ours,
            // Whatever comes or goes may be a link on the way to a file.
            EventKind::Create(_) => {
                if begins {
                    self.open(event);
                }
                true
            }
            _ => {
                self.close(event);
                let gone = self.directories.iter().filter(|path| event.paths.contains(path));
                self.gone.extend(gone.cloned());
                true
            }
        }
    }

    /// Only where the end is reported too can one wait for it.
    fn open(&mut self, event: &Event) {
        if RecommendedWatcher::kind() == WatcherKind::Inotify {
            self.close(event);
            let opened = self.files.iter().filter(|file| event.paths.contains(file));
            self.written.extend(opened.cloned());
        }
    }

    fn close(&mut self, event: &Event) {
        // Some events were lost.
        if event.need_rescan() {
            self.written.clear();
        }
        self.written.retain(|file| !event.paths.contains(file));
    }
}

/// Whether a file has just come that was opened to be written, and is not a link to one that was
/// there before.
fn begins_to_be_written(event: &Event) -> bool {
    let is_new = |it: Metadata| it.is_file() && it.nlink() == 1;
    matches!(event.kind, EventKind::Create(_))
        && event.paths.iter().all(|path| path.symlink_metadata().is_ok_and(is_new))
}

/// The directories of these paths, those that they lead to, and those of links on the way there.
fn directories(paths: &[PathBuf]) -> Vec<WatchedDirectory> {
    let led_to = paths.iter().filter_map(|path| path.canonicalize().ok());
    let links = paths.iter().flat_map(|path| path.ancestors()).filter(|path| path.is_symlink());
    let places = paths.iter().cloned().chain(led_to).chain(links.map(Path::to_owned));
    let mut directories: Vec<_> = places.filter_map(|path| directory(&path)).collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}

/// The names under which changes of these files are reported.
fn names(paths: &[PathBuf]) -> Vec<PathBuf> {
    let led_to = paths.iter().filter_map(|path| path.canonicalize().ok());
    let named = |path: &PathBuf| Some(directory(path)?.path.join(path.file_name()?));
    let mut names: Vec<_> = led_to.chain(paths.iter().filter_map(named)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The directory of a path, or the nearest one above it that is there. By its canonical name:
/// watched under two names, a directory is lost with the first that goes.
fn directory(path: &Path) -> Option<WatchedDirectory> {
    let mut above = path.ancestors().skip(1).map(|it| match it.as_os_str().is_empty() {
        true => Path::new("."),
        false => it,
    });
    above.find_map(|it| {
        let path = it.canonicalize().ok()?;
        let metadata = path.metadata().ok().filter(Metadata::is_dir)?;
        Some(WatchedDirectory { path, id: (metadata.dev(), metadata.ino()) })
    })
}

const ATTEMPTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_watched_under_one_name_and_stays_so_when_the_file_is_gone() {
        let mut watch = DirectoryWatch::new(&Arc::new(Notify::new()));
        watch.cover(&["Cargo.toml".into(), "./src/../Cargo.lock".into()]);
        let covered = watch.covered.clone();
        assert_eq!(covered.len(), 1, "{covered:?}");
        watch.cover(&["gone.toml".into()]);
        assert_eq!(watch.covered, covered);
        // Where there is no directory yet, the one above it will tell when it comes.
        watch.cover(&["gone/for/good/gone.toml".into()]);
        assert_eq!(watch.covered, covered);
    }
}
