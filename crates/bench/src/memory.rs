//! Bytes per key: resident memory before and after a million keys, each contestant in a process of
//! its own.

use std::process::Command;

use anyhow::Context;

use crate::contestant::{self, Setting};
use crate::figures::Figures;
use crate::table;

const KEYS: usize = 1_000_000;

pub(crate) fn compare(figures: &mut Figures) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for name in contestant::names() {
        let output = Command::new(std::env::current_exe()?)
            .args(["memory-of", name, &KEYS.to_string()])
            .output()
            .with_context(|| format!("measuring {name}"))?;
        let bytes = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        figures.add(format!("{name}, bytes per key"), "bytes", bytes.parse()?, []);
        rows.push(vec![name.to_owned(), bytes]);
    }
    let header = ["resident bytes a key", "1M keys"].map(str::to_owned);
    table::print("Memory", &header, &rows);
    Ok(())
}

pub(crate) fn measure(name: &str, keys: usize) -> anyhow::Result<()> {
    let contestant = contestant::make(name, Setting::Strict);
    let mut key = String::with_capacity(16);
    let before = resident()?;
    for number in 0..keys {
        use std::fmt::Write;
        key.clear();
        write!(key, "user:{number:07}")?;
        std::hint::black_box(contestant.check(&key));
    }
    let grown = resident()?.saturating_sub(before);
    println!("{:.1}", grown as f64 / keys as f64);
    Ok(())
}

/// Resident bytes of this process.
fn resident() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages = statm.split_whitespace().nth(1).context("resident pages")?;
    Ok(pages.parse::<u64>()? * 4_096)
}
