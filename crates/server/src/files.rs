//! Follows files: their directories tell when one may have changed, their stamps whether it has.

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

/// Looks at `subject` forever: now, when one of its files changes, and when `asked` is notified. Which
/// files these are, `paths` says after each look.
///
/// A file is looked at once it has been quiet for a moment and nobody is writing it any more, so
/// that nobody sees half of it. Whether it has changed is also checked from time to time, since not
/// every file system reports changes. A file that stays as it is is never read again.
///
/// Whoever looks is told how to see, once it has read, that nobody has begun to write meanwhile: what
/// it has read is worth nothing then, and it will look again.
///
/// All that touches a file system is kept off the runtime's own thread: it may hang.
pub(crate) async fn follow<T: Send + 'static>(
    subject: T,
    paths: impl Fn(&T) -> Vec<PathBuf> + Send,
    asked: Arc<Notify>,
    look: impl Fn(T, &dyn Fn() -> bool) -> T + Clone + Send + 'static,
) {
    // This fails when the runtime is shutting down.
    let Err(_) = try_follow(subject, paths, asked, LOOK_ANYWAY, look).await;
}

async fn try_follow<T: Send + 'static>(
    mut subject: T,
    paths: impl Fn(&T) -> Vec<PathBuf> + Send,
    asked: Arc<Notify>,
    anyway: Duration,
    look: impl Fn(T, &dyn Fn() -> bool) -> T + Clone + Send + 'static,
) -> Result<Infallible, JoinError> {
    let changed = Arc::new(Notify::new());
    let mut files = WatchedFiles { watch: DirectoryWatch::new(&changed), paths: paths(&subject) };
    let mut is_quiet = true;
    let mut seen;
    // Watch first, then look: a change in between wakes us up.
    (files, seen) = spawn_blocking(move || files.stamps()).await?;
    loop {
        let look = look.clone();
        (files, seen, subject) = spawn_blocking(move || {
            // Files that are written all the time are taken as they are.
            let subject = look(subject, &|| !is_quiet || files.are_still(&seen));
            (files, seen, subject)
        })
        .await?;
        let now = paths(&subject);
        if now != files.paths {
            // Whatever has become of the new ones since they were read shows when they are looked at
            // once more.
            files.paths = now;
            (files, seen) = spawn_blocking(move || files.stamps()).await?;
            continue;
        }
        let mut is_asked = false;
        while !is_asked {
            is_asked = tokio::select! {
                () = asked.notified() => true,
                () = changed.notified() => false,
                () = sleep(anyway) => false,
            };
            let stamps;
            (files, stamps, is_quiet) = wait_until_quiet(files, is_asked).await?;
            if std::mem::replace(&mut seen, stamps) != seen {
                break;
            }
        }
    }
}

/// Waits until the files are quiet, and until nobody writes them, but not for ever: a writer may be
/// one that never stops. Whoever asks for a file has written it. Returns whether they are quiet.
async fn wait_until_quiet(
    mut files: WatchedFiles,
    is_asked: bool,
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
        let is_quiet = stamps == before && (is_asked || !is_written);
        if is_quiet || Instant::now() >= latest {
            return Ok((files, stamps, is_quiet));
        }
        before = stamps;
    }
}

/// The files, and what watches them.
struct WatchedFiles {
    watch: DirectoryWatch,
    paths: Vec<PathBuf>,
}

impl WatchedFiles {
    /// What the files are now, and watched from now on.
    fn stamps(mut self) -> (Self, Vec<Option<FileStamp>>) {
        self.watch.cover(&self.paths);
        let stamps = self.paths.iter().map(|path| FileStamp::of(path)).collect();
        (self, stamps)
    }

    /// Whether they are what they were.
    fn are_still(&self, stamps: &[Option<FileStamp>]) -> bool {
        self.paths.iter().map(|path| FileStamp::of(path)).eq(stamps.iter().cloned())
    }
}

/// Other for another version of a file, whether it was replaced, rewritten or allowed to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    id: (u64, u64),
    size: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Option<Self> {
        let it = path.metadata().ok()?;
        Some(Self {
            id: (it.dev(), it.ino()),
            size: it.size(),
            written: (it.mtime(), it.mtime_nsec()),
            changed: (it.ctime(), it.ctime_nsec()),
        })
    }
}

/// Longer than a file system's clock stands still: what is written after a look has another stamp.
const QUIET_TIME: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_ANYWAY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
