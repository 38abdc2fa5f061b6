//! Regenerates derived files: `cargo run -p xtask -- vectors`, `schema`, `openapi` or `protobuf`.

mod protobuf;

use anyhow::{Context, bail};
use tidegate_conformance::vectors;
use tidegate_core::AlgorithmKind;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("vectors") => write_vectors(),
        Some("schema") => write(SCHEMA, &tidegate_policy::json_schema()),
        Some("openapi") => write(OPENAPI, &tidegate_wire::openapi()),
        Some("protobuf") => protobuf::write(),
        task => bail!("{task:?}: expected vectors, schema, openapi or protobuf"),
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

fn write(path: &str, text: &str) -> anyhow::Result<()> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::fs::write(format!("{root}/{path}"), text).with_context(|| format!("writing {path}"))?;
    println!("{path}");
    Ok(())
}

const SCHEMA: &str = "schema/policies.schema.json";
const OPENAPI: &str = "schema/openapi.json";
