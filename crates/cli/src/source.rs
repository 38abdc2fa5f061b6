//! Reads a configuration from a file, or from standard input.

use std::io::stdin;
use std::path::Path;

use tidegate::config::{FileProblems, PolicySource};

/// Reads the file at a path; `-` is standard input.
pub(crate) fn read_source(path: &Path) -> Result<PolicySource, FileProblems> {
    match path.as_os_str() == "-" {
        true => PolicySource::from_reader(name_of(path), stdin().lock()),
        false => PolicySource::read(path),
    }
}

/// The name of a file in messages.
pub(crate) fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}
