//! The files that a plan names: keys of tokens, certificates, secrets.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files and what was in them, so that a change shows by their contents.
///
/// ```
/// use tidegate_server::NamedFiles;
///
/// let path = std::env::temp_dir().join(format!("tidegate-named-{}", std::process::id()));
/// std::fs::write(&path, "one")?;
/// let mut files = NamedFiles::default();
/// assert_eq!(&*files.read(&path)?, b"one");
/// assert!(!files.have_changed());
/// std::fs::write(&path, "two")?;
/// assert!(files.have_changed());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFiles(Vec<NamedFile>);

#[derive(Clone, PartialEq, Eq)]
struct NamedFile {
    path: PathBuf,
    /// `None` if it could not be read.
    contents: Option<Arc<[u8]>>,
}

impl NamedFiles {
    /// The largest file that is read.
    pub const MAX_BYTES: u64 = 1 << 20;

    /// Reads a file and remembers what was in it. A file that is read again has the same contents: one
    /// look sees one version of it.
    pub fn read(&mut self, path: &Path) -> io::Result<Arc<[u8]>> {
        let known = self.0.iter().find(|it| it.path == path);
        if let Some(contents) = known.and_then(|it| it.contents.clone()) {
            return Ok(contents);
        }
        let read = read_bounded(path);
        if known.is_none() {
            let contents = read.as_ref().ok().cloned();
            self.0.push(NamedFile { path: path.to_owned(), contents });
        }
        read
    }

    /// Whether the contents of any of them are others by now.
    pub fn have_changed(&self) -> bool {
        self.0.iter().any(|it| read_bounded(&it.path).ok() != it.contents)
    }

    /// Where they are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|it| it.path.as_path())
    }

    /// Adds others. A file that is in both was read twice, and maybe in two versions: both are kept,
    /// so that one of them has changed.
    pub fn extend(&mut self, others: &Self) {
        for other in &others.0 {
            if !self.0.contains(other) {
                self.0.push(other.clone());
            }
        }
    }
}

/// Shows no contents: they may be secret.
impl fmt::Debug for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedFile").field(&self.path).finish()
    }
}

fn read_bounded(path: &Path) -> io::Result<Arc<[u8]>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(NamedFiles::MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > NamedFiles::MAX_BYTES {
        let most = NamedFiles::MAX_BYTES >> 20;
        return Err(io::Error::other(format!("too large: expected at most {most} MiB")));
    }
    Ok(bytes.into())
}
