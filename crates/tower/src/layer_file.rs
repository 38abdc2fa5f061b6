//! The policy file behind a layer, which can be followed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_limiter::config::{FileProblems, PolicySource};
use tidegate_limiter::{MemoryStore, PlanFileEvent, PlanLimiter, PlanWatch, Store, notice};

use crate::RateLimitLayer;

/// The file, and the watch that follows it, if it is followed.
#[derive(Clone)]
pub(crate) struct LayerFile {
    path: PathBuf,
    follow: FollowFunction,
    watch: Option<Arc<PlanWatch>>,
}

type FileReport = Box<dyn Fn(&PlanFileEvent) + Send>;
/// Follows the file, whatever the type of the limiter's store.
type FollowFunction = Arc<dyn Fn(&Path, FileReport) -> PlanWatch + Send + Sync>;

impl RateLimitLayer {
    /// A layer with the policies of a file; the error lists everything that is wrong with it. The
    /// counters are in this process; see [`policy_file_in`](Self::policy_file_in) for another store.
    ///
    /// The file is read once; [`watch`](Self::watch) follows its changes.
    ///
    /// ```no_run
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::policy_file("limits.yaml")?.watch();
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`FileProblems`]: all of them at once, each with its line and column.
    pub fn policy_file(path: impl AsRef<Path>) -> Result<Self, FileProblems> {
        Self::policy_file_in(path, MemoryStore::new())
    }

    /// [`policy_file`](Self::policy_file) with the counters in this store, such as one in Redis.
    ///
    /// ```no_run
    /// use tidegate::AnyStore;
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let store = AnyStore::open("redis://cache.internal", "the secret of this deployment")?;
    /// let layer = RateLimitLayer::policy_file_in("limits.yaml", store)?.watch();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy_file_in<S: Store + 'static>(
        path: impl AsRef<Path>,
        store: S,
    ) -> Result<Self, FileProblems> {
        let path = path.as_ref();
        let limiter = Arc::new(PlanLimiter::load(&PolicySource::read(path)?, store)?);
        let followed = Arc::clone(&limiter);
        let follow: FollowFunction =
            Arc::new(move |path, report| followed.watch_with(path, report));
        let file = LayerFile { path: path.to_owned(), follow, watch: None };
        Ok(Self::limiter(limiter).with(|config| config.file = Some(file)))
    }

    /// Follows the policy file: a valid change takes effect within about a second, with all counts, and an
    /// invalid one changes nothing. Each is a line on standard error, or an event of `tracing` with that
    /// feature. The file is followed as long as the layer or one of its services exists.
    ///
    /// It has no effect on a layer without a [policy file](Self::policy_file), and says so.
    pub fn watch(self) -> Self {
        self.watch_with(|event| notice(&event.to_string()))
    }

    /// [`watch`](Self::watch), and passes each change to `report`.
    ///
    /// ```no_run
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::policy_file("limits.yaml")?
    ///     .watch_with(|event| println!("limits: {event}"));
    /// # Ok::<(), tidegate::config::FileProblems>(())
    /// ```
    pub fn watch_with(self, report: impl Fn(&PlanFileEvent) + Send + 'static) -> Self {
        self.with(|config| match &mut config.file {
            Some(file) => {
                file.watch = Some(Arc::new((file.follow)(&file.path, Box::new(report))));
            }
            None => {
                notice("this layer has no policy file to watch: use RateLimitLayer::policy_file");
            }
        })
    }
}

impl fmt::Debug for LayerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LayerFile")
            .field("path", &self.path)
            .field("is_watched", &self.watch.is_some())
            .finish_non_exhaustive()
    }
}
