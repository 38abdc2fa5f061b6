//! Follows files: a directory watch reports when one may have changed, and its metadata whether it has.

mod watch;

use std::convert::Infallible;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};

use self::watch::DirectoryWatch;

/// Calls `look` forever: now, when one of the files changes, and when `request` is notified. `paths`
/// returns the files after each call, since `look` can change them.
///
/// A change counts once the file has been quiet for a moment and no program writes it any more, so that
/// `look` does not read half of it. Metadata is also checked periodically, since not every file system
/// reports changes. An unchanged file is not read again.
///
/// `look` gets a function to call after it has read. If that returns false, a write has begun meanwhile:
/// `look` must discard what it has read, and will be called again.
///
/// All file system access runs off the runtime's own thread, because it can hang.
pub(crate) async fn follow<T: Send + 'static>(
    subject: T,
    paths: impl Fn(&T) -> Vec<PathBuf> + Send,
    request: Arc<Notify>,
    look: impl Fn(T, &dyn Fn() -> bool) -> T + Clone + Send + 'static,
) {
    // This fails when the runtime is shutting down.
    let Err(_) = try_follow(subject, paths, request, LOOK_ANYWAY, look).await;
}

async fn try_follow<T: Send + 'static>(
    mut subject: T,
    paths: impl Fn(&T) -> Vec<PathBuf> + Send,
    request: Arc<Notify>,
    anyway: Duration,
    look: impl Fn(T, &dyn Fn() -> bool) -> T + Clone + Send + 'static,
) -> Result<Infallible, JoinError> {
    let changed = Arc::new(Notify::new());
    let mut files = WatchedFiles { watch: DirectoryWatch::new(&changed), paths: paths(&subject) };
    let mut is_quiet = true;
    let mut seen;
    // Watch first, then read: a change in between wakes this task up.
    (files, seen) = spawn_blocking(move || files.stamps()).await?;
    loop {
        let look = look.clone();
        (files, seen, subject) = spawn_blocking(move || {
            // Files that are written without a pause are read as they are.
            let subject = look(subject, &|| !is_quiet || files.are_still(&seen));
            (files, seen, subject)
        })
        .await?;
        let now = paths(&subject);
        if now != files.paths {
            // The new files were read before they were watched: read them again.
            files.paths = now;
            (files, seen) = spawn_blocking(move || files.stamps()).await?;
            continue;
        }
        let mut is_requested = false;
        while !is_requested {
            is_requested = tokio::select! {
                () = request.notified() => true,
                () = changed.notified() => false,
                () = sleep(anyway) => false,
            };
            let stamps;
            (files, stamps, is_quiet) = wait_until_quiet(files, is_requested).await?;
            if std::mem::replace(&mut seen, stamps) != seen {
                break;
            }
        }
    }
}

/// Waits until the files are quiet and no program writes them, but not forever: some writers never stop.
/// An operator who requests a reload has finished writing. Returns whether the files are quiet.
async fn wait_until_quiet(
    mut files: WatchedFiles,
    is_requested: bool,
) -> Result<(WatchedFiles, Vec<Option<FileStamp>>, bool), JoinError> {
    let latest = Instant::now() + PATIENCE;
    let (mut before, mut stamps, mut is_written);
    (files, before) = spawn_blocking(move || files.stamps()).await?;
    loop {
        sleep(QUIET_TIME).await;
        (files, stamps, is_written) = spawn_blocking(move || {
            let (files, stamps) = files.stamps();
            let is_written = files.watch.has_writer();
            (files, stamps, is_written)
        })
        .await?;
        let is_quiet = stamps == before && (is_requested || !is_written);
        if is_quiet || Instant::now() >= latest {
            return Ok((files, stamps, is_quiet));
        }
        before = stamps;
    }
}

/// The files, and the watch on their directories.
struct WatchedFiles {
    watch: DirectoryWatch,
    paths: Vec<PathBuf>,
}

impl WatchedFiles {
    /// Watches the files, and returns their current stamps.
    fn stamps(mut self) -> (Self, Vec<Option<FileStamp>>) {
        self.watch.cover(&self.paths);
        let stamps = self.paths.iter().map(|path| FileStamp::of(path)).collect();
        (self, stamps)
    }

    /// Whether the files still have these stamps.
    fn are_still(&self, stamps: &[Option<FileStamp>]) -> bool {
        self.paths.iter().map(|path| FileStamp::of(path)).eq(stamps.iter().cloned())
    }
}

/// The metadata that differs when a file is replaced, rewritten, or becomes readable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    id: (u64, u64),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self {
            id: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            written: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

/// Longer than a tick of a file system's clock: a later write gets another stamp.
const QUIET_TIME: Duration = Duration::from_millis(20);
/// How long to wait for a writer to finish.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often metadata is checked without a report of a change.
const LOOK_ANYWAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
