//! A directory that does not outlive its test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A directory of its own. Removed when dropped.
///
/// ```
/// let scratch = tidegate_testkit::Scratch::new();
/// let file = scratch.write("limits.yaml", "policies: []");
/// assert_eq!(file, scratch.path().join("limits.yaml"));
/// ```
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new directory.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        loop {
            let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(format!("{PREFIX}{pid}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // Left by a killed process that had our id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot create {}: {error}", path.display()),
            }
        }
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, text).expect("a file in our own directory");
        path
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the directories of processes that could not do it themselves, because they were killed or
/// kept their server in a `static`.
fn sweep() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if is_left(&path) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// A process that we cannot see may still be alive, in a container that shares the directory. It is
/// given some time.
fn is_left(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let owner = name.and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
    let Some(Ok(pid)) = owner.map(|(pid, _)| pid.parse::<u32>()) else { return false };
    let is_gone = Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{pid}")).exists();
    let age = path.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
    is_gone && age.is_some_and(|age| age > Duration::from_secs(600))
}

const PREFIX: &str = "tidegate-testkit-";
