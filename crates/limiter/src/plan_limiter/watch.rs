//! Follows the file of a plan: a change takes effect without a restart.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use tidegate_policy::{FileProblems, PolicySource};
use tidegate_store::Store;

use super::PlanLimiter;
use crate::notice::notice;

/// What became of a change to a file that is [followed](PlanLimiter::watch).
///
/// ```
/// use tidegate::PlanFileEvent;
///
/// fn log(event: &PlanFileEvent) {
///     match event {
///         PlanFileEvent::Refused { problems, .. } => eprintln!("{problems}"),
///         other => println!("{other}"),
///     }
/// }
/// # let _ = log;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlanFileEvent {
    /// The new text is in effect. Counters stay: what was taken under the old limits counts under the new ones.
    Reloaded {
        /// The file.
        path: PathBuf,
    },
    /// The new text is refused, and the old one stays in effect.
    Refused {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it.
        problems: FileProblems,
    },
}

impl fmt::Display for PlanFileEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reloaded { path } => write!(f, "{}: reloaded", path.display()),
            Self::Refused { path, problems } => {
                write!(f, "{}: refused, the old limits stay\n{problems}", path.display())
            }
        }
    }
}

/// Follows a file until it is dropped.
#[derive(Debug)]
#[must_use = "the file is followed until this is dropped"]
pub struct PlanWatch {
    /// The thread ends when this is dropped.
    _stop: Sender<()>,
}

impl<S: Store + 'static> PlanLimiter<S> {
    /// Follows a file from now on: decides by its new text whenever it has changed and is valid. A text that is
    /// refused changes nothing. Each change is a line on standard error, or an event of `tracing` with that feature;
    /// [`watch_with`](Self::watch_with) reports it to the program instead.
    ///
    /// A change takes effect within about a second, once the file has been quiet for a moment, so that half of it is
    /// never read. Editors that replace the file and links that are swapped are followed too. The work is done by a
    /// thread of its own, which ends with the watch or with the limiter, whichever is first.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::config::PolicySource;
    /// use tidegate::{MemoryStore, PlanLimiter};
    ///
    /// # let folder = std::env::temp_dir().join(format!("tidegate-watch-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("limits.yaml");
    /// # std::fs::write(&path, "policies: [{ name: api, key: [user], limits: [1/hour] }]")?;
    /// let limiter = Arc::new(PlanLimiter::load(&PolicySource::read(&path)?, MemoryStore::new())?);
    /// let watch = limiter.watch(&path);
    /// // ... as long as `watch` lives, the limiter follows its file ...
    /// # drop(watch);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch(self: &Arc<Self>, path: impl Into<PathBuf>) -> PlanWatch {
        self.watch_with(path, |event| notice(&event.to_string()))
    }

    /// [`watch`](Self::watch), and passes each change to `report`.
    pub fn watch_with(
        self: &Arc<Self>,
        path: impl Into<PathBuf>,
        report: impl Fn(&PlanFileEvent) + Send + 'static,
    ) -> PlanWatch {
        let (stop, stopped) = channel();
        let path = path.into();
        let mut follower = FileFollower::new(Arc::downgrade(self), path);
        let run = move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                match follower.look() {
                    Some(Some(event)) => report(&event),
                    Some(None) => {}
                    None => return,
                }
            }
        };
        let thread = thread::Builder::new().name("tidegate-watch".to_owned()).spawn(run);
        if let Err(error) = thread {
            notice(&format!("the policy file is not followed: {error}"));
        }
        PlanWatch { _stop: stop }
    }
}

/// The file, and what is known of it.
struct FileFollower<S> {
    limiter: Weak<PlanLimiter<S>>,
    path: PathBuf,
    /// The stamp of the text that was tried last.
    tried: Option<FileState>,
    /// The stamp at the last look.
    seen: Option<FileState>,
    /// The text that was tried last, valid or not: the same text is not tried again.
    text: Option<String>,
}

/// What differs when a file is replaced or rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    size: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self { size: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl<S: Store> FileFollower<S> {
    fn new(limiter: Weak<PlanLimiter<S>>, path: PathBuf) -> Self {
        // Not yet tried: a change between loading the file and following it is found by its text.
        let text = PolicySource::read(&path).ok().map(|source| source.text().to_owned());
        Self { limiter, path, tried: None, seen: None, text }
    }

    /// Looks at the file once. `None` if the limiter is gone; otherwise what has changed, if anything has.
    fn look(&mut self) -> Option<Option<PlanFileEvent>> {
        let limiter = self.limiter.upgrade()?;
        let state = FileState::of(&self.path);
        let is_quiet = std::mem::replace(&mut self.seen, state) == state;
        if state == self.tried || !is_quiet {
            return Some(None);
        }
        let source = PolicySource::read(&self.path);
        // Written while it was read: looked at again.
        if FileState::of(&self.path) != state {
            return Some(None);
        }
        self.tried = state;
        Some(self.apply(&limiter, source))
    }

    fn apply(
        &mut self,
        limiter: &PlanLimiter<S>,
        source: Result<PolicySource, FileProblems>,
    ) -> Option<PlanFileEvent> {
        let path = self.path.clone();
        let outcome = match source {
            Ok(source) if self.text.as_deref() == Some(source.text()) => return None,
            Ok(source) => {
                self.text = Some(source.text().to_owned());
                limiter.reload(&source)
            }
            Err(problems) => Err(problems),
        };
        Some(match outcome {
            Ok(()) => PlanFileEvent::Reloaded { path },
            Err(problems) => PlanFileEvent::Refused { path, problems },
        })
    }
}

/// How often the file is looked at. A change takes effect at the second look that finds it.
const PERIOD: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::fs;

    use tidegate_core::Cost;
    use tidegate_store::MemoryStore;
    use tidegate_testkit::Scratch;

    use super::*;

    fn text(limit: &str) -> String {
        format!("policies: [{{ name: api, key: [user], limits: [{limit}] }}]")
    }

    /// Looks until the follower has something to say.
    fn next<S: Store>(follower: &mut FileFollower<S>) -> PlanFileEvent {
        (0..10).find_map(|_| follower.look().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_change_takes_effect_and_a_mistake_changes_nothing() {
        let folder = Scratch::new();
        let path = folder.path().join("limits.yaml");
        fs::write(&path, text("1/hour")).unwrap();
        let source = PolicySource::read(&path).unwrap();
        let limiter = Arc::new(PlanLimiter::load(&source, MemoryStore::new()).unwrap());
        let mut follower = FileFollower::new(Arc::downgrade(&limiter), path.clone());
        let remaining = async || limiter.check(&[("user", "1")], Cost::ONE).await.remaining();
        assert_eq!(remaining().await, Some(0));
        for _ in 0..4 {
            assert!(follower.look().unwrap().is_none(), "nothing has changed");
        }

        fs::write(&path, text("5000/hour")).unwrap();
        assert!(follower.look().unwrap().is_none(), "it may still be written");
        assert!(matches!(next(&mut follower), PlanFileEvent::Reloaded { .. }));
        assert_eq!(remaining().await, Some(4_998));

        fs::write(&path, text("lots of/hour")).unwrap();
        let refused = next(&mut follower);
        assert!(refused.to_string().contains("the old limits stay"), "{refused}");
        assert_eq!(remaining().await, Some(4_997));
        // A mistake is reported once.
        assert!((0..4).all(|_| follower.look().unwrap().is_none()));
        fs::remove_file(&path).unwrap();
        assert!(matches!(next(&mut follower), PlanFileEvent::Refused { .. }));
        fs::write(&path, text("70000/hour")).unwrap();
        assert!(matches!(next(&mut follower), PlanFileEvent::Reloaded { .. }));

        drop(limiter);
        assert!(follower.look().is_none());
    }

    #[test]
    fn a_thread_follows_the_file_until_the_watch_is_dropped() {
        let folder = Scratch::new();
        let path = folder.path().join("limits.yaml");
        fs::write(&path, text("1/hour")).unwrap();
        let source = PolicySource::read(&path).unwrap();
        let limiter = Arc::new(PlanLimiter::load(&source, MemoryStore::new()).unwrap());
        let (sender, events) = channel();
        let watch = limiter.watch_with(&path, move |event| drop(sender.send(event.to_string())));
        fs::write(&path, text("20000/hour")).unwrap();
        assert!(events.recv().unwrap().ends_with("reloaded"));
        drop(watch);
        // The thread ends, and with it the sender.
        assert!(events.recv().is_err());
    }
}
