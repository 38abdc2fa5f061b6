//! The sources of the documentation's site, for mdBook: the documents with a table of contents made from the
//! index, `docs/README.md`, and the page of the HTTP API as the server serves it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, ensure};

/// Writes a book's sources into a directory, from which `mdbook build` makes the site.
pub fn write(root: &Path, book: &Path) -> anyhow::Result<()> {
    let pages = pages(root)?;
    let files: BTreeSet<PathBuf> =
        pages.iter().map(|(_, page)| page.clone()).chain(figures(root)?).collect();
    let repository = repository(root)?;
    put(book, Path::new("book.toml"), settings(&repository).as_bytes())?;
    let book = &book.join("src");
    for (_, page) in &pages {
        let text = read(root, page)?;
        let text = with_links(&text, page, &files, &repository, root);
        put(book, &staged(page), text.as_bytes())?;
    }
    for figure in figures(root)? {
        put(book, &figure, &std::fs::read(root.join(&figure))?)?;
    }
    put(book, Path::new("api/openapi.json"), &std::fs::read(root.join("schema/openapi.json"))?)?;
    let served = "crates/server/src/transport/http/docs";
    for (from, to) in API_FILES {
        let text = std::fs::read(root.join(served).join(from)).with_context(|| from.to_owned())?;
        put(book, Path::new(to), &text)?;
    }
    put(book, Path::new("reference.md"), REFERENCE.as_bytes())?;
    put(book, Path::new("SUMMARY.md"), summary(&pages).as_bytes())
}

/// The page as it is served at `/docs`. Its links are relative, so it works here, too.
const API_FILES: [(&str, &str); 4] = [
    ("page.html", "api/index.html"),
    ("page.css", "api/docs/page.css"),
    ("page.js", "api/docs/page.js"),
    ("curl.js", "api/docs/curl.js"),
];

const REFERENCE: &str = "# Reference\n
- [The HTTP API](api/index.html): every endpoint and every body, from the OpenAPI document. A running server shows the
  same page at `/docs`, and there it can send requests.
- [The Rust library](rustdoc/tidegate/index.html): the documentation of the crate `tidegate`.\n";

/// The titles and paths of all pages, in order: the introduction, the index, the pages in the order of the
/// index, and the documents of the project.
pub fn pages(root: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let index = read(root, Path::new("docs/README.md"))?;
    let mut pages = vec![
        ("Tidegate".to_owned(), PathBuf::from("README.md")),
        ("All pages".to_owned(), PathBuf::from("docs/README.md")),
    ];
    for line in index.lines().filter(|line| line.starts_with('|')) {
        let Some((_, link)) = line.rsplit_once('[') else { continue };
        let Some((title, rest)) = link.split_once("](") else { continue };
        let (file, _) = rest.split_once(')').context("a link without an end")?;
        pages.push((title.to_owned(), Path::new("docs").join(file)));
    }
    ensure!(pages.len() > 10, "docs/README.md lists {} pages", pages.len());
    for (title, file) in PROJECT {
        pages.push((title.to_owned(), file.into()));
    }
    Ok(pages)
}

const PROJECT: [(&str, &str); 4] = [
    ("Architecture", "ARCHITECTURE.md"),
    ("Security", "SECURITY.md"),
    ("Contributing", "CONTRIBUTING.md"),
    ("Changelog", "CHANGELOG.md"),
];

/// The table of contents.
pub fn summary(pages: &[(String, PathBuf)]) -> String {
    let mut text = String::from("# Summary\n\n");
    let mut is_guide = true;
    for (title, page) in pages {
        let path = staged(page);
        let path = path.display();
        if page == Path::new("README.md") {
            let _ = writeln!(text, "[{title}]({path})\n\n# Guides\n");
            continue;
        }
        if is_guide && page.parent() == Some(Path::new("")) {
            is_guide = false;
            text += "\n# Reference\n\n- [API and library](reference.md)\n\n# The project\n\n";
        }
        let _ = writeln!(text, "- [{title}]({path})");
    }
    text
}

/// Where a document is in the book: a README is the index of its directory.
fn staged(page: &Path) -> PathBuf {
    if page.file_name().is_some_and(|name| name == "README.md") {
        return page.with_file_name("index.md");
    }
    page.to_owned()
}

/// The files in docs that are not pages.
fn figures(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut figures = Vec::new();
    for entry in std::fs::read_dir(root.join("docs"))? {
        let name = PathBuf::from(entry?.file_name());
        if name.extension().is_some_and(|end| end == "svg" || end == "png") {
            figures.push(Path::new("docs").join(name));
        }
    }
    figures.sort();
    Ok(figures)
}

/// A page whose links to files that are not in the book lead to the repository.
fn with_links(
    text: &str,
    page: &Path,
    files: &BTreeSet<PathBuf>,
    repository: &str,
    root: &Path,
) -> String {
    let mut is_code = false;
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("](").filter(|_| !is_code && !is_fence) {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            let link = link(target, page, files, repository, root);
            let _ = write!(lines, "{before}]({link})");
            rest = after;
        }
        lines += rest;
        lines.push('\n');
    }
    lines
}

fn link(
    target: &str,
    page: &Path,
    files: &BTreeSet<PathBuf>,
    repository: &str,
    root: &Path,
) -> String {
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    if file.is_empty() || target.contains("://") {
        return target.to_owned();
    }
    let found = normal(&page.with_file_name(file));
    if files.contains(&found) {
        let shown = Path::new(file);
        let end = if fragment.is_empty() { String::new() } else { format!("#{fragment}") };
        return format!("{}{end}", staged(shown).display());
    }
    let kind = if root.join(&found).is_dir() { "tree" } else { "blob" };
    format!("{repository}/{kind}/main/{}", found.display())
}

/// Without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The address of the repository, from the manifest.
fn repository(root: &Path) -> anyhow::Result<String> {
    let manifest = read(root, Path::new("Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("repository = \""));
    Ok(line
        .and_then(|line| line.strip_suffix('"'))
        .context("Cargo.toml: no repository")?
        .to_owned())
}

fn settings(repository: &str) -> String {
    format!(
        "[book]\ntitle = \"Tidegate\"\ndescription = \"A rate limiter: library, layer, server and \
         gateway\"\nlanguage = \"en\"\n\n[output.html]\ngit-repository-url = \
         \"{repository}\"\nno-section-label = true\n\n[output.html.search]\nenable = true\n"
    )
}

fn read(root: &Path, file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| file.display().to_string())
}

fn put(book: &Path, file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let path = book.join(file);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(&path, bytes).with_context(|| path.display().to_string())
}
