//! Regenerates derived files: `cargo run -p xtask -- vectors`, `schema`, `openapi`, `protobuf`,
//! `figures`, or `book DIR`, the sources of the documentation's site.

mod protobuf;

use std::path::Path;

use anyhow::{Context, bail};
use tidegate_conformance::vectors;
use tidegate_core::AlgorithmKind;
use xtask::{book, figures};

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("vectors") => write_vectors(),
        Some("schema") => {
            write(SCHEMA, &tidegate_policy::json_schema(tidegate_gateway::config::SECTIONS))
        }
        Some("openapi") => write(OPENAPI, &tidegate_wire::openapi()),
        Some("protobuf") => protobuf::write(),
        Some("figures") => write_figures(),
        Some("book") => {
            let directory = std::env::args().nth(2).context("book: expected a directory")?;
            book::write(ROOT.as_ref(), directory.as_ref())
        }
        task => bail!("{task:?}: expected vectors, schema, openapi, protobuf, figures or book"),
    }
}

fn write_vectors() -> anyhow::Result<()> {
    for kind in AlgorithmKind::ALL {
        let path = vectors::path(*kind);
        std::fs::write(&path, vectors::generate(*kind))
            .with_context(|| format!("writing {}", path.display()))?;
        println!("vectors/{kind}.jsonl");
    }
    Ok(())
}

fn write_figures() -> anyhow::Result<()> {
    for document in figures::DOCUMENTS {
        let text = std::fs::read_to_string(Path::new(ROOT).join(document)).context(document)?;
        write(document, &figures::update(ROOT.as_ref(), &text).context(document)?)?;
    }
    Ok(())
}

fn write(path: &str, text: &str) -> anyhow::Result<()> {
    std::fs::write(format!("{ROOT}/{path}"), text).with_context(|| format!("writing {path}"))?;
    println!("{path}");
    Ok(())
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const SCHEMA: &str = "schema/policies.schema.json";
const OPENAPI: &str = "schema/openapi.json";
