//! Puts figures into documents. Benchmarks write them to `docs/figures/*.json` (`scripts/bench NAME
//! --record`). A template, `docs/figures/*.template`, is a piece of a document that cites them:
//!
//! - `{http: tidegate, 1 at a time}` is the figure with this id in `http.json`.
//! - `{http: tidegate, 1 at a time / throttlecrab}` is its ratio to this peer.
//! - `{redis: ID; ID}` is the range of several figures. Ratios work as well.
//! - `{http: command}`, `{http: date}` and `{http: machine}` describe the run.
//!
//! The document has a block for it, which begins with `<!-- figures: NAME -->` and ends with
//! `<!-- end of figures -->`.

use std::path::Path;

use anyhow::{Context, bail};
use serde_json::Value;

/// The documents with such blocks.
pub const DOCUMENTS: [&str; 4] =
    ["README.md", "docs/algorithms.md", "docs/operations.md", "docs/performance.md"];

/// How a block begins, before the name of its template, and how it ends.
const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// A document's text with all its blocks written anew.
pub fn update(root: &Path, text: &str) -> anyhow::Result<String> {
    let mut updated = String::new();
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(BEGIN) {
        let (name, block) = block.split_once(" -->\n").context("a block without a name")?;
        let (_, after) = block.split_once(END).with_context(|| format!("{name}: no end"))?;
        let template = read(root, &format!("{name}.template"))?;
        let filled =
            fill(root, &template).with_context(|| format!("docs/figures/{name}.template"))?;
        updated += &format!("{before}{BEGIN}{name} -->\n\n{}\n\n{END}", filled.trim());
        rest = after;
    }
    Ok(updated + rest)
}

/// A text without its blocks.
pub fn without_blocks(text: &str) -> String {
    let mut parts = text.split(BEGIN);
    let before = parts.next().unwrap_or_default().to_owned();
    parts.fold(before, |all, part| all + part.split_once(END).map_or("", |(_, after)| after))
}

/// A template with figures in the place of citations.
fn fill(root: &Path, template: &str) -> anyhow::Result<String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (citation, after) = after.split_once('}').context("a { without }")?;
        filled += before;
        filled += &cite(root, citation).with_context(|| format!("{{{citation}}}"))?;
        rest = after;
    }
    Ok(filled + rest)
}

/// What a citation stands for.
fn cite(root: &Path, citation: &str) -> anyhow::Result<String> {
    let (file, ids) = citation.split_once(": ").context("expected FILE: ID")?;
    let run: Value = serde_json::from_str(&read(root, &format!("{file}.json"))?)?;
    if let Some(text) = run.get(ids).and_then(Value::as_str) {
        return Ok(text.to_owned());
    }
    let texts = ids.split("; ").map(|id| find(&run, id)).collect::<anyhow::Result<Vec<_>>>()?;
    range(&texts)
}

/// The figure with this id, or its ratio: `ID / PEER`.
fn find<'a>(run: &'a Value, id: &str) -> anyhow::Result<&'a str> {
    let (id, peer) = id.split_once(" / ").map_or((id, None), |(id, peer)| (id, Some(peer)));
    let figures = run["figures"].as_array().context("a file without figures")?;
    let figure = figures.iter().find(|figure| figure["id"] == id);
    let figure = figure.with_context(|| format!("there is no figure {id:?}"))?;
    let text = peer.map_or(&figure["value"], |peer| &figure["ratios"][peer]);
    text.as_str().with_context(|| match peer {
        Some(peer) => format!("{id:?} has no ratio to {peer:?}"),
        None => format!("{id:?} has no value"),
    })
}

/// The lowest and the highest number of some texts, each a number or `A to B`.
fn range(texts: &[&str]) -> anyhow::Result<String> {
    let mut numbers = Vec::new();
    for text in texts.iter().flat_map(|text| text.split(" to ")) {
        let number: f64 = text.replace(',', "").parse().with_context(|| format!("{text:?}"))?;
        numbers.push((number, text));
    }
    numbers.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    match (numbers.first(), numbers.last()) {
        (Some((_, low)), Some((_, high))) if low == high => Ok((*low).to_owned()),
        (Some((_, low)), Some((_, high))) => Ok(format!("{low} to {high}")),
        _ => bail!("no figures"),
    }
}

fn read(root: &Path, name: &str) -> anyhow::Result<String> {
    let path = root.join("docs/figures").join(name);
    std::fs::read_to_string(&path).with_context(|| format!("docs/figures/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with one file of figures and one template.
    fn project(template: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("docs/figures");
        std::fs::create_dir_all(&folder).unwrap();
        let figures = r#"{"command": "./scripts/bench http", "date": "2026-01-02", "figures": [
            {"id": "a", "value": "1,200 to 1,500", "unit": "ns", "ratios": {"peer": "0.90"}},
            {"id": "b", "value": "900", "unit": "ns"}
        ]}"#;
        std::fs::write(folder.join("http.json"), figures).unwrap();
        std::fs::write(folder.join("speed.template"), template).unwrap();
        root
    }

    const DOCUMENT: &str = "before\n<!-- figures: speed -->\nold\n<!-- end of figures -->\nafter\n";

    #[test]
    fn a_block_is_its_template_with_the_figures_of_the_files() {
        let root = project("{http: a} ns, {http: a / peer}, {http: a; b}, {http: date}\n");
        let updated = update(root.path(), DOCUMENT).unwrap();
        let block = "1,200 to 1,500 ns, 0.90, 900 to 1,500, 2026-01-02";
        let expected = format!(
            "before\n<!-- figures: speed -->\n\n{block}\n\n<!-- end of figures -->\nafter\n"
        );
        assert_eq!(updated, expected);
        assert_eq!(update(root.path(), &updated).unwrap(), expected, "nothing is left to do");
        assert_eq!(without_blocks(&updated), "before\n\nafter\n");
    }

    #[test]
    fn a_citation_of_nothing_is_an_error_that_names_it() {
        for (template, expected) in [
            ("{http: c}", "there is no figure \"c\""),
            ("{http: b / peer}", "\"b\" has no ratio to \"peer\""),
            ("{grpc: a}", "docs/figures/grpc.json"),
            ("{a}", "expected FILE: ID"),
        ] {
            let error = update(project(template).path(), DOCUMENT).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected) && error.contains("speed.template"), "{error}");
        }
    }
}
