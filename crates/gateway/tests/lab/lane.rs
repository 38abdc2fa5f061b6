//! One lane: a witness, a gateway or a proxy in front of it, and a ledger of the charged counters.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::law::{Counterexample, Law, Served};
use crate::ledger::Ledger;
use crate::request::{Request, field};
use crate::spelling::{Speller, Words};
use crate::wire::{self, Protocol};
use crate::witness::Account;

pub(crate) struct Lane {
    /// The name of the gateway or proxy, and of the witness behind it.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) protocol: Protocol,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) words: Words,
    /// Whether trailers are part of the search.
    pub(crate) sends_trailers: bool,
}

/// The results of one run.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) asked: usize,
    pub(crate) served: usize,
    /// The shortest come first.
    pub(crate) counterexamples: Vec<Counterexample>,
}

impl Lane {
    /// Sends requests in plain spelling, in the spellings of the corpus, and in random ones.
    pub(crate) async fn search(&self, run: &Run) -> Outcome {
        let mut speller = Speller::new(run.seed, self.words.clone());
        let plain = speller.plain();
        let corpus = run.corpus.iter().map(|line| Request::read(&self.words.fill_in(line)));
        let mut requests: Vec<_> = plain.iter().cloned().chain(corpus).collect();
        requests.extend((0..run.spellings).map(|_| speller.spelling()));
        requests.retain(|request| self.sends_trailers || request.trailers.is_empty());
        let (mut law, mut found, mut served) = (Law::default(), Vec::new(), 0);
        for (number, request) in requests.iter().enumerate() {
            let answer = self.ask(request).await;
            let name = &self.name;
            assert!(answer.is_some() || number >= plain.len(), "{name} refuses {}", request.text());
            if let Some(answer) = answer {
                served += 1;
                for counterexample in law.check(&answer) {
                    found.extend(self.confirm(counterexample).await);
                }
            }
        }
        let counterexamples = self.simplest(found).await;
        Outcome { name: self.name.clone(), asked: requests.len(), served, counterexamples }
    }

    async fn ask(&self, request: &Request) -> Option<Served> {
        self.ledger.take();
        let body = wire::ask(self.address, self.protocol, request).await;
        let account = Account::read(&body)?;
        Some(Served { request: request.clone(), account, counted: self.ledger.take() })
    }

    /// Repeats both requests. A request that timed out may have been counted late, as if it were the next.
    async fn confirm(&self, found: Counterexample) -> Option<Counterexample> {
        let first = self.ask(&found.first.request).await?;
        let second = self.ask(&found.second.request).await?;
        Some(Counterexample { first, second, ..found }).filter(Counterexample::holds)
    }

    /// A few counterexamples for each clause, reduced to the parts that matter.
    async fn simplest(&self, mut found: Vec<Counterexample>) -> Vec<Counterexample> {
        found.sort_by_key(Counterexample::size);
        let mut simplest: Vec<Counterexample> = Vec::new();
        for candidate in found {
            let known = simplest.iter().filter(|it| it.clause == candidate.clause).count();
            if known >= SHOWN {
                continue;
            }
            let simple = self.simplify(candidate).await;
            let is_known = |it: &Counterexample| {
                it.clause == simple.clause && it.second.request == simple.second.request
            };
            if !simplest.iter().any(is_known) {
                simplest.push(simple);
            }
        }
        simplest.sort_by_key(Counterexample::size);
        simplest
    }

    /// Removes parts from both requests as long as they remain a counterexample.
    async fn simplify(&self, mut found: Counterexample) -> Counterexample {
        loop {
            let first = simpler(&found.first.request, None).into_iter().map(|it| (true, it));
            let second = simpler(&found.second.request, Some(&found.first.request));
            let mut candidates = first.chain(second.into_iter().map(|it| (false, it)));
            let better = loop {
                let Some((is_first, request)) = candidates.next() else { return found };
                let Some(served) = self.ask(&request).await else { continue };
                let mut candidate = found.clone();
                *(if is_first { &mut candidate.first } else { &mut candidate.second }) = served;
                if candidate.holds() {
                    break candidate;
                }
            };
            found = better;
        }
    }
}

/// The same request with one part less, or with one part taken from `other`.
fn simpler(request: &Request, other: Option<&Request>) -> Vec<Request> {
    let mut simpler = Vec::new();
    for number in 0..request.fields.len() {
        let mut less = request.clone();
        less.fields.remove(number);
        simpler.push(less);
    }
    for number in 0..request.trailers.len() {
        let mut less = request.clone();
        less.trailers.remove(number);
        simpler.push(less);
    }
    let plain = Request::new("GET", "/login", "api.test");
    let other = other.unwrap_or(&plain);
    let Request { method, target, version, .. } = other.clone();
    simpler.push(Request { method, ..request.clone() });
    simpler.push(Request { target, ..request.clone() });
    simpler.push(Request { version, ..request.clone() });
    if let Some(query) = request.target.iter().position(|byte| *byte == b'?') {
        simpler.push(Request { target: request.target[..query].to_vec(), ..request.clone() });
    }
    let mut hosted = request.clone();
    if let Some(host) =
        hosted.fields.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(b"host"))
    {
        *host = field("host", "api.test");
        simpler.push(hosted);
    }
    simpler.retain(|it| it != request);
    simpler
}

/// The length of the search, and its seed.
pub(crate) struct Run {
    pub(crate) spellings: usize,
    pub(crate) seed: u64,
    corpus: Vec<&'static str>,
}

impl Run {
    /// Short and the same each time, unless the environment says otherwise.
    pub(crate) fn from_environment() -> Self {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name}={text}: expected a number")))
        };
        let spellings = number("TIDEGATE_LAB_SPELLINGS").map_or(FEW, |it| it as usize);
        let seed = number("TIDEGATE_LAB_SEED").unwrap_or(1);
        let lines = include_str!("corpus.txt").lines();
        let is_request = |line: &&str| !line.is_empty() && !line.starts_with('#');
        Self { spellings, seed, corpus: lines.filter(is_request).collect() }
    }

    /// Panics with all counterexamples.
    pub(crate) fn judge(&self, outcomes: &[Outcome], words: &[Words]) {
        let mut report = String::new();
        for (outcome, words) in outcomes.iter().zip(words) {
            let Outcome { name, asked, served, counterexamples } = outcome;
            println!("{name}: {served} of {asked} requests served, seed {}", self.seed);
            // A search in which hardly anything is served proves nothing.
            assert!(served * 5 > *asked, "{name} served only {served} of {asked}");
            for counterexample in counterexamples {
                report += &words.take_out(&format!("{name}: {counterexample}\n"));
            }
        }
        assert!(
            report.is_empty(),
            "served alike, and counted apart (seed {}):\n{report}",
            self.seed
        );
    }
}

/// Spellings per witness in a default run.
const FEW: usize = 150;
/// Counterexamples per clause in a report.
const SHOWN: usize = 8;
