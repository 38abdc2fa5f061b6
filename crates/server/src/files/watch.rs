//! Reports when files may have changed, by watching their directories. Those of symbolic links on
//! the way to a file are watched too.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher, WatcherKind};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// A watch on files. It watches their directories rather than the files themselves: editors replace
/// files, and Kubernetes swaps a link beside them.
pub(super) struct DirectoryWatch {
    watcher: Option<RecommendedWatcher>,
    /// The directories that are watched now.
    covered: Vec<WatchedDirectory>,
    /// Shared with the watcher's thread.
    events: Arc<Mutex<WatchEvents>>,
}

/// A directory, by its canonical path and its device and inode: another directory may take the
/// path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedDirectory {
    path: PathBuf,
    id: (u64, u64),
}

impl DirectoryWatch {
    /// A watch that covers no file yet. It notifies `changed` when a covered file may have changed.
    pub(super) fn new(changed: &Arc<Notify>) -> Self {
        let events = Arc::new(Mutex::new(WatchEvents::default()));
        let (changed, seen) = (Arc::clone(changed), Arc::clone(&events));
        let on_event = move |event: notify::Result<Event>| {
            // The file system is accessed before the lock is taken, because it can hang.
            let means_a_change = |event: Event| {
                let begins = begins_to_be_written(&event);
                seen.lock().is_change(&event, begins)
            };
            if event.map_or(true, means_a_change) {
                changed.notify_one();
            }
        };
        // Without a watcher, the periodic checks have to suffice.
        Self { watcher: notify::recommended_watcher(on_event).ok(), covered: Vec::new(), events }
    }

    /// Whether a program is writing one of the files, as far as events tell: only inotify's do.
    pub(super) fn has_writer(&self) -> bool {
        !self.events.lock().written.is_empty()
    }

    /// Covers these files and no others: watches every directory whose events can mean a change of
    /// one of them.
    pub(super) fn cover(&mut self, paths: &[PathBuf]) {
        // A directory may be created before its parent is watched: check again.
        for _ in 0..ATTEMPTS {
            let (wanted, names) = (directories(paths), names(paths));
            let gone = self.events.lock().expect_of(names, &wanted);
            self.covered.retain(|directory| !gone.contains(&directory.path));
            if self.covered == wanted {
                return;
            }
            self.watch(wanted);
        }
    }

    fn watch(&mut self, wanted: Vec<WatchedDirectory>) {
        let Some(watcher) = &mut self.watcher else { return };
        let (kept, left): (Vec<_>, Vec<_>) =
            self.covered.drain(..).partition(|directory| wanted.contains(directory));
        for directory in left {
            let _ = watcher.unwatch(&directory.path);
        }
        for new in wanted.iter().filter(|directory| !kept.contains(directory)) {
            // A directory that was moved away may still be watched under this name.
            let _ = watcher.unwatch(&new.path);
            let _ = watcher.watch(&new.path, RecursiveMode::NonRecursive);
        }
        self.covered = wanted;
    }
}

/// What the events so far say about the files and their directories. The events themselves are not
/// kept.
#[derive(Debug, Default)]
struct WatchEvents {
    /// The paths under which events report the files.
    files: Vec<PathBuf>,
    /// Files that were written, and not closed yet.
    written: Vec<PathBuf>,
    /// The directories to watch.
    directories: Vec<PathBuf>,
    /// Directories that were deleted or moved away. One that is created again must be watched
    /// again, even if it gets the same inode.
    gone: Vec<PathBuf>,
}

impl WatchEvents {
    /// Replaces the files and directories to watch. Returns the directories that have gone since
    /// the last call.
    fn expect_of(&mut self, files: Vec<PathBuf>, directories: &[WatchedDirectory]) -> Vec<PathBuf> {
        self.files = files;
        self.directories = directories.iter().map(|directory| directory.path.clone()).collect();
        std::mem::take(&mut self.gone)
    }

    /// Whether an event means that one of the files may have changed. Reads mean nothing: they are
    /// probably our own. `begins` means that a file was created to be written.
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
            // Anything that is created or removed may be a link on the way to a file.
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

    /// Marks the event's files as being written. Only inotify also reports the close, so files are
    /// marked only there.
    fn open(&mut self, event: &Event) {
        if RecommendedWatcher::kind() == WatcherKind::Inotify {
            self.close(event);
            let opened = self.files.iter().filter(|file| event.paths.contains(file));
            self.written.extend(opened.cloned());
        }
    }

    /// Marks the event's files as written no more.
    fn close(&mut self, event: &Event) {
        // Events were lost, perhaps the one that closed a file.
        if event.need_rescan() {
            self.written.clear();
        }
        self.written.retain(|file| !event.paths.contains(file));
    }
}

/// Whether the event is the creation of a file to be written, and not of a link to an existing
/// file.
fn begins_to_be_written(event: &Event) -> bool {
    let is_new = |metadata: Metadata| metadata.is_file() && metadata.nlink() == 1;
    matches!(event.kind, EventKind::Create(_))
        && event.paths.iter().all(|path| path.symlink_metadata().is_ok_and(is_new))
}

/// The directories of these paths, of the files they resolve to, and of links on the way there.
fn directories(paths: &[PathBuf]) -> Vec<WatchedDirectory> {
    let targets = paths.iter().filter_map(|path| path.canonicalize().ok());
    let links = paths.iter().flat_map(|path| path.ancestors()).filter(|path| path.is_symlink());
    let all = paths.iter().cloned().chain(targets).chain(links.map(Path::to_owned));
    let mut directories: Vec<_> = all.filter_map(|path| directory(&path)).collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}

/// The paths under which events report these files.
fn names(paths: &[PathBuf]) -> Vec<PathBuf> {
    let targets = paths.iter().filter_map(|path| path.canonicalize().ok());
    let named = |path: &PathBuf| Some(directory(path)?.path.join(path.file_name()?));
    let mut names: Vec<_> = targets.chain(paths.iter().filter_map(named)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The directory of a path, or its nearest ancestor that exists. By its canonical path: a directory
/// that is watched under two paths is unwatched when the first of them goes.
fn directory(path: &Path) -> Option<WatchedDirectory> {
    let mut ancestors = path.ancestors().skip(1).map(|path| match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    });
    ancestors.find_map(|ancestor| {
        let path = ancestor.canonicalize().ok()?;
        let metadata = path.metadata().ok().filter(Metadata::is_dir)?;
        Some(WatchedDirectory { path, id: (metadata.dev(), metadata.ino()) })
    })
}

/// How often [`DirectoryWatch::cover`] looks again for new directories.
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
        // For a missing directory, its nearest ancestor is watched.
        watch.cover(&["gone/for/good/gone.toml".into()]);
        assert_eq!(watch.covered, covered);
    }
}
