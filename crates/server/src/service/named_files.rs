//! The files that a plan names, such as token keys, certificates and secrets.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A set of files with the contents they had when read, to detect changes.
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
    /// `None` if the file could not be read.
    contents: Option<Arc<[u8]>>,
}

impl NamedFiles {
    /// The largest file that is read.
    pub const MAX_BYTES: u64 = 1 << 20;

    /// Reads a file and remembers its contents. Reading it again returns the same contents, so that one
    /// pass sees one version of each file.
    pub fn read(&mut self, path: &Path) -> io::Result<Arc<[u8]>> {
        let known = self.0.iter().find(|file| file.path == path);
        if let Some(contents) = known.and_then(|file| file.contents.clone()) {
            return Ok(contents);
        }
        let read = read_bounded(path);
        if known.is_none() {
            let contents = read.as_ref().ok().cloned();
            self.0.push(NamedFile { path: path.to_owned(), contents });
        }
        read
    }

    /// Whether any of the files has other contents now.
    pub fn have_changed(&self) -> bool {
        self.0.iter().any(|file| read_bounded(&file.path).ok() != file.contents)
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|file| file.path.as_path())
    }

    /// Adds other files. A file in both sets was read twice, perhaps in two versions: both are kept, so
    /// that the difference counts as a change.
    pub fn extend(&mut self, others: &Self) {
        for other in &others.0 {
            if !self.0.contains(other) {
                self.0.push(other.clone());
            }
        }
    }
}

/// Omits the contents, which may be secret.
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
