//! Runs the corpora of the fuzz targets as ordinary tests.

#![allow(clippy::disallowed_methods, reason = "how long a search takes is not a decision")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Checks a property on every file in the corpus of a target, and on mutations of them.
///
/// A short run with a fixed seed is part of the test suite. `TIDEGATE_FUZZ_SECONDS=600` goes on for that
/// long, with another seed each time. The targets in `fuzz/` check the same properties on inputs
/// that are chosen by the code they reach (`scripts/fuzz`).
///
/// ```
/// tidegate_testkit::fuzz("quotas", |bytes| {
///     let _ = std::str::from_utf8(bytes);
/// });
/// ```
pub fn fuzz(target: &str, mut property: impl FnMut(&[u8])) {
    let mut mutator = Mutator::new(target);
    for input in mutator.corpus.clone() {
        hold(&input, &mut property);
    }
    while mutator.goes_on() {
        hold(&mutator.input(), &mut property);
    }
}

/// Inputs that resemble those in a corpus, for a property that has to wait for something.
#[derive(Debug)]
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
    random: fastrand::Rng,
    made: usize,
    end: Instant,
}

impl Mutator {
    /// The inputs of a target. Prints the seed.
    pub fn new(target: &str) -> Self {
        let seconds = std::env::var(SECONDS).ok().map(|text| match text.parse() {
            Ok(seconds) => seconds,
            Err(_) => panic!("{SECONDS} is {text:?}: expected a number of seconds"),
        });
        let seed = if seconds.is_some() { fastrand::u64(..) } else { SEED };
        println!("{target}: seed {seed}");
        let end = Instant::now() + Duration::from_secs(seconds.unwrap_or_default());
        Self { corpus: corpus(target), random: fastrand::Rng::with_seed(seed), made: 0, end }
    }

    /// What is in the corpus, in the order of its files' names.
    pub fn corpus(&self) -> &[Vec<u8>] {
        &self.corpus
    }

    /// Whether the run is to go on.
    pub fn goes_on(&self) -> bool {
        self.made < INPUTS || Instant::now() < self.end
    }

    /// The next input: one file or several in a row, with parts lost, repeated, swapped or made up.
    pub fn input(&mut self) -> Vec<u8> {
        self.made += 1;
        let mut input = self.any().to_vec();
        while self.random.u8(..4) == 0 {
            let times = if self.random.bool() { 1 } else { self.random.usize(1..80) };
            let more = self.any().repeat(times);
            input.extend(more);
        }
        for _ in 0..self.random.usize(1..8) {
            self.spoil(&mut input);
        }
        input.truncate(MOST);
        input
    }

    fn any(&mut self) -> &[u8] {
        let at = self.random.usize(..self.corpus.len());
        &self.corpus[at]
    }

    fn spoil(&mut self, input: &mut Vec<u8>) {
        let at = self.random.usize(..=input.len());
        let end = (at + self.random.usize(..16)).min(input.len());
        match self.random.u8(..8) {
            0 if at < input.len() => input[at] = self.random.u8(..),
            1 if at < input.len() => input[at] ^= 1 << self.random.u8(..8),
            2 => drop(input.drain(at..end)),
            3 => {
                let part = input[at..end].repeat(self.random.usize(1..200));
                input.splice(at..at, part);
            }
            4 => {
                let piece = PIECES[self.random.usize(..PIECES.len())];
                input.splice(at..at, piece.iter().copied());
            }
            5 => drop(input.splice(at..at, self.random.i64(..).to_string().into_bytes())),
            6 => {
                let other = self.any().to_vec();
                let from = self.random.usize(..=other.len());
                input.splice(at..end, other[from..].iter().copied());
            }
            _ => input.truncate(at),
        }
    }
}

/// The files of a target's corpus, in the order of their names.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}: expected a corpus", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{}: expected files", folder.display());
    files.iter().map(|file| std::fs::read(file).expect("a file of the corpus")).collect()
}

fn hold(input: &[u8], property: &mut impl FnMut(&[u8])) {
    let _shown = Shown(input);
    property(input);
}

/// Prints an input if the property panics on it.
struct Shown<'i>(&'i [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input: b\"{}\"", self.0.escape_ascii());
        }
    }
}

const SECONDS: &str = "TIDEGATE_FUZZ_SECONDS";
const SEED: u64 = 0x7469_6465_6761_7465;
/// How many inputs a run has at least, besides the corpus.
const INPUTS: usize = 2_000;
const MOST: usize = 64 << 10;

/// What parsers of text and of lengths are sensitive to.
const PIECES: [&[u8]; 30] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\t",
    b" ",
    b"%",
    b"%2F",
    b"%00",
    b"..",
    b"/",
    b";",
    b":",
    b",",
    b"=",
    b"\"",
    b"'",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"-",
    b"0",
    b"9999999999999999999",
    b"1e999",
    b"null",
    b"\\u",
    b"\xff\xff\xff\xff\x0f",
];
