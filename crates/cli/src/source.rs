//! Reads a configuration from a file, or from standard input.

use std::io::stdin;
use std::path::Path;

use tidegate::config::{FileProblems, PolicySource};
use tidegate_gateway::config::SECTIONS;

/// Reads the file at a path. It may have all sections that `serve` knows.
pub(crate) fn read_file(path: &Path) -> Result<PolicySource, FileProblems> {
    PolicySource::read(path).map(|source| source.with_sections(SECTIONS))
}

/// The same; `-` is standard input.
pub(crate) fn read_source(path: &Path) -> Result<PolicySource, FileProblems> {
    if path.as_os_str() != "-" {
        return read_file(path);
    }
    let source = PolicySource::from_reader(name_of(path), stdin().lock());
    source.map(|source| source.with_sections(SECTIONS))
}

/// The name of a file in messages.
pub(crate) fn name_of(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard input".to_owned() } else { path.display().to_string() }
}
