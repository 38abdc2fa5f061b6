//! Regenerates what is derived: `cargo run -p xtask -- vectors`.

use anyhow::{Context, bail};
use tidegate_conformance::vectors;
use tidegate_core::AlgorithmKind;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("vectors") => write_vectors(),
        task => bail!("{task:?}: expected vectors"),
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
