//! Files that a program refuses, each beside the message about it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory of `NAME.yaml`, the files that are refused, and `NAME.txt`, the messages.
#[derive(Debug)]
pub struct RefusedFiles(Vec<PathBuf>);

impl RefusedFiles {
    /// The files in `directory`. Panics if there are fewer than `at_least`: a test that finds no files proves
    /// nothing.
    pub fn read(directory: impl AsRef<Path>, at_least: usize) -> Self {
        let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
        files.sort();
        assert!(files.len() >= at_least, "only {} files", files.len());
        Self(files)
    }

    /// Panics unless `refuse`, which gets the name and the bytes of a file, returns the message beside each
    /// file. With `TIDEGATE_BLESS=1` it writes the messages first.
    pub fn assert_messages(&self, refuse: impl Fn(&str, &[u8]) -> String) {
        let mut wrong = Vec::new();
        for path in &self.0 {
            let name = path.file_name().unwrap().to_str().unwrap();
            let message = refuse(name, &fs::read(path).unwrap()) + "\n";
            let expected = path.with_extension("txt");
            if env::var_os("TIDEGATE_BLESS").is_some() {
                fs::write(&expected, &message).unwrap();
            }
            if fs::read_to_string(&expected).unwrap_or_default() != message {
                wrong.push(message);
            }
        }
        assert!(wrong.is_empty(), "not as in the files beside:\n{}", wrong.join("\n"));
    }

    /// The bytes of the files whose names begin with this. Panics if there are none.
    pub fn with_prefix(&self, prefix: &str) -> Vec<Vec<u8>> {
        let names =
            |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(prefix);
        let files: Vec<_> =
            self.0.iter().filter(names).map(|path| fs::read(path).unwrap()).collect();
        assert!(!files.is_empty(), "no file begins with {prefix}");
        files
    }
}
