//! Several processes hammer the same counters: together, not each, they get what the limit says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use support::{Counter, patient_store};
use tidegate_core::AlgorithmKind;
use tidegate_store::{Store, Verdicts};
use tidegate_store_redis::RedisStore;
use tidegate_testkit::Redis;
use tokio::time::{Instant, sleep};

const PROCESSES: usize = 4;
/// Callers in each process on each counter.
const CALLERS: usize = 3;
const LIMIT: u64 = 60;
const WINDOW: u64 = 1_000_000;
const RUN: Duration = Duration::from_secs(5);
/// Where a child finds Redis; a process without this variable is the parent.
const URL: &str = "TIDEGATE_HAMMERED_REDIS";

/// The positions of the counters with short windows in [`counters`].
const FIXED: usize = 0;
const SLIDING: usize = 1;
const LOG: usize = 2;
const BUCKET: usize = 3;
const STEPPED: usize = 4;

/// All algorithms, with windows of a second; and again with windows that no test outlives.
fn counters() -> Vec<Counter> {
    use AlgorithmKind::{FixedWindow, SlidingLog, SlidingWindow, SteppedWindow, TokenBucket};
    let short = [FixedWindow, SlidingWindow, SlidingLog, TokenBucket, SteppedWindow]
        .map(|kind| Counter::new(kind, &format!("{LIMIT}/1s"), 1));
    let long = [FixedWindow, SlidingWindow, SlidingLog, SteppedWindow]
        .map(|kind| Counter::new(kind, &format!("{LIMIT}/400d"), 2));
    let bucket = Counter::new(TokenBucket, &format!("1/10d burst {LIMIT}"), 2);
    short.into_iter().chain(long).chain([bucket]).collect()
}

/// One admission, in microseconds since the epoch as its process saw it. All processes and Redis
/// share one clock.
#[derive(Clone, Copy, Debug)]
struct Admission {
    counter: usize,
    asked: u64,
    answered: u64,
    reset_after: u64,
}

#[allow(clippy::disallowed_methods, reason = "compares with Redis, which has no other clock")]
fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(time.as_micros()).unwrap()
}

/// Not a test: this is what the other processes run.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "is started by the test below"]
async fn process_that_hammers_the_counters() {
    let Ok(url) = std::env::var(URL) else { return };
    let store = Arc::new(patient_store(&url));
    let all = counters().into_iter().enumerate();
    let callers = all.flat_map(|counter| [counter; CALLERS]);
    let callers = callers.map(|(which, counter)| {
        let store = Arc::clone(&store);
        tokio::spawn(async move { hammer_one(&store, which, &counter).await })
    });
    for caller in callers.collect::<Vec<_>>() {
        for one in caller.await.unwrap() {
            let Admission { counter, asked, answered, reset_after } = one;
            println!("admitted {counter} {asked} {answered} {reset_after}");
        }
    }
    println!("finished");
}

async fn hammer_one(store: &RedisStore, which: usize, counter: &Counter) -> Vec<Admission> {
    let (start, mut admissions) = (Instant::now(), Vec::new());
    while start.elapsed() < RUN {
        let (asked, mut verdicts) = (now(), Verdicts::new());
        let passes = store.settle(&[counter.charge()], None, &mut verdicts).await.unwrap();
        let answered = now();
        if passes {
            let reset_after = verdicts[0].reset_after.as_micros();
            admissions.push(Admission { counter: which, asked, answered, reset_after });
        }
        sleep(Duration::from_millis(1)).await;
    }
    admissions
}

fn start_process(url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "process_that_hammers_the_counters",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(URL, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn read_admissions(process: Child) -> Vec<Admission> {
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("finished"), "{text}");
    let admissions = text.lines().filter_map(|line| line.split_once("admitted "));
    admissions.map(|(_, line)| read_admission(line)).collect()
}

fn read_admission(line: &str) -> Admission {
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let [counter, asked, answered, reset_after] = numbers[..] else { panic!("{line}") };
    Admission { counter: counter as usize, asked, answered, reset_after }
}

#[test]
fn together_they_are_admitted_as_often_as_the_limit_says_in_every_window() {
    let redis = Redis::start();
    let processes: Vec<_> = (0..PROCESSES).map(|_| start_process(&redis.url())).collect();
    let all: Vec<_> = processes.into_iter().flat_map(read_admissions).collect();
    let of = |which| {
        let mut mine: Vec<_> = all.iter().copied().filter(|one| one.counter == which).collect();
        mine.sort_by_key(|one| one.asked);
        mine
    };
    for (which, counter) in counters().iter().enumerate().skip(5) {
        assert_eq!(of(which).len() as u64, LIMIT, "{}", counter.limit());
    }
    let windows = by_window(&of(FIXED), 0);
    assert!(windows.len() >= 3 && windows.iter().all(|count| *count == LIMIT), "{windows:?}");
    // A full previous window makes room bit by bit: the last unit only as the window ends.
    let windows = by_window(&of(SLIDING), WINDOW);
    let full = |count: &u64| (LIMIT * 9 / 10..=LIMIT).contains(count);
    assert!(windows.len() >= 3 && windows.iter().all(full), "{windows:?}");
    assert_within(&of(LOG), |_| LIMIT);
    assert_within(&of(STEPPED), |_| LIMIT);
    assert_within(&of(BUCKET), |span| LIMIT + LIMIT * span / WINDOW);
}

/// How many were admitted in each window that was observed from beginning to end. A window ends
/// `reset` after the decision, less what the quota takes to be full after that.
fn by_window(admissions: &[Admission], beyond: u64) -> Vec<u64> {
    // The end is a multiple of the window, and we know it to within the time of the answer.
    let window = |one: &Admission| (one.answered + one.reset_after - beyond) / WINDOW;
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    admissions.iter().for_each(|one| *counts.entry(window(one)).or_default() += 1);
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.pop();
    counts.drain(..counts.len().min(1));
    counts
}

/// Never more admissions than the bound in any span up to a window, whichever admission it begins with;
/// and no fewer than a caller that always retries can expect.
fn assert_within(admissions: &[Admission], bound: impl Fn(u64) -> u64) {
    for (n, first) in admissions.iter().enumerate() {
        // Admissions that were certainly decided after `first` was requested and within the span.
        for (last, count) in admissions[n..].iter().zip(1..) {
            let span = last.answered.saturating_sub(first.asked);
            let certain =
                admissions[n..n + count].iter().filter(|one| one.answered <= last.answered);
            let most = bound(span);
            assert!(span >= WINDOW || certain.count() as u64 <= most, "{count} in {span} us");
        }
    }
    let whole = admissions[admissions.len() - 1].asked - admissions[0].answered;
    let least = LIMIT * (whole / WINDOW).saturating_sub(1);
    assert!(admissions.len() as u64 >= least, "{} in {whole} us", admissions.len());
}
