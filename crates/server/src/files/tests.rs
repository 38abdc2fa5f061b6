//! Following files through all the ways in which they are written, replaced and moved.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_testkit::Scratch;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::*;

/// A file that is followed by events alone, without periodic checks.
struct Followed {
    /// The contents of the file, read by read.
    looks: UnboundedReceiver<String>,
    request: Arc<Notify>,
    task: AbortHandle,
}

impl Followed {
    /// Follows a file, and waits until it was read once.
    async fn new(path: &Path) -> Self {
        let (reads, looks) = unbounded_channel();
        let (request, file) = (Arc::new(Notify::new()), path.to_owned());
        let look = move |(), is_whole: &dyn Fn() -> bool| {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if is_whole() {
                drop(reads.send(text));
            }
        };
        let paths = vec![path.to_owned()];
        let following = try_follow((), move |()| paths.clone(), Arc::clone(&request), NEVER, look);
        let task = tokio::spawn(following).abort_handle();
        let mut followed = Self { looks, request, task };
        followed.look().await;
        followed
    }

    /// The next contents that were read.
    async fn look(&mut self) -> String {
        timeout(LONG, self.looks.recv()).await.unwrap().unwrap()
    }

    /// All contents that were read, up to and including `last`.
    async fn until(&mut self, last: &str) -> Vec<String> {
        let mut seen = vec![self.look().await];
        while seen.last().is_none_or(|it| it != last) {
            seen.push(self.look().await);
        }
        seen
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const LONG: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(10_000);

#[tokio::test]
async fn a_file_that_stays_as_it_is_is_not_read_whatever_happens_beside_it() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", "one");
    let mut followed = Followed::new(&file).await;
    for turn in 0..10 {
        fs::read_to_string(&file).unwrap();
        scratch.write("other.yaml", &turn.to_string());
        fs::remove_file(scratch.write("short.yaml", "")).unwrap();
        // Longer than a change needs to settle.
        sleep(QUIET_TIME * 2).await;
    }
    fs::write(&file, "two").unwrap();
    assert_eq!(followed.until("two").await, ["two"]);
    followed.request.notify_one();
    assert_eq!(followed.look().await, "two");
}

#[tokio::test]
async fn nobody_sees_half_of_a_file_however_slowly_it_is_written() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", "0-first-0-second");
    let mut followed = Followed::new(&file).await;
    // The longest pauses exceed the time between two checks.
    for (turn, pause) in [0, 5, 5, 15, 50, 200].into_iter().enumerate() {
        let mut writer = File::create(&file).unwrap();
        sleep(Duration::from_millis(pause)).await;
        write!(writer, "{turn}-first-").unwrap();
        sleep(Duration::from_millis(pause)).await;
        write!(writer, "{turn}-second").unwrap();
        drop(writer);
        let whole = format!("{turn}-first-{turn}-second");
        assert_eq!(followed.until(&whole).await, [whole]);
    }
}

#[tokio::test]
async fn a_file_that_is_never_closed_is_seen_in_the_end() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", "one");
    let mut followed = Followed::new(&file).await;
    let mut writer = File::create(&file).unwrap();
    write!(writer, "two").unwrap();
    assert_eq!(followed.look().await, "two");
}

#[tokio::test]
async fn a_file_that_is_written_all_the_time_is_seen_in_the_end() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", "one");
    let mut followed = Followed::new(&file).await;
    let is_seen = Arc::new(AtomicBool::new(false));
    let (mut out, may_end) = (File::create(&file).unwrap(), Arc::clone(&is_seen));
    // A detached thread, so that a failing test ends too.
    std::thread::spawn(move || {
        while !may_end.load(Ordering::Relaxed) {
            out.write_all(b"x").unwrap();
            std::thread::yield_now();
        }
    });
    let seen = followed.look().await;
    is_seen.store(true, Ordering::Relaxed);
    assert!(seen.starts_with('x'), "{} bytes", seen.len());
}

#[tokio::test]
async fn a_file_may_be_replaced_in_any_way() {
    let scratch = Scratch::new();
    let file = scratch.write("limits.yaml", "0");
    let mut followed = Followed::new(&file).await;
    let beside = |name: &str, text: &str| scratch.write(name, text);
    let ways: [&dyn Fn(&str); 5] = [
        &|text| fs::rename(beside("new", text), &file).unwrap(),
        // Like an editor that keeps a backup.
        &|text| {
            fs::rename(&file, scratch.file("limits.yaml~")).unwrap();
            fs::write(&file, text).unwrap();
        },
        &|text| {
            fs::remove_file(&file).unwrap();
            symlink(beside("target", text), &file).unwrap();
        },
        // Through the link.
        &|text| drop(beside("target", text)),
        &|text| {
            fs::remove_file(&file).unwrap();
            fs::hard_link(beside("twin", text), &file).unwrap();
        },
    ];
    for (turn, replace) in ways.into_iter().enumerate() {
        let text = format!("way {turn}");
        replace(&text);
        followed.until(&text).await;
    }
}

#[tokio::test]
async fn links_on_the_way_may_be_swapped() {
    let scratch = Scratch::new();
    let swap = |link: &str, target: &str| {
        let _ = fs::remove_file(scratch.file("tmp"));
        symlink(target, scratch.file("tmp")).unwrap();
        fs::rename(scratch.file("tmp"), scratch.file(link)).unwrap();
    };
    for version in ["one", "two"] {
        fs::create_dir(scratch.file(version)).unwrap();
        scratch.write(&format!("{version}/limits.yaml"), version);
    }
    // A release, and a ConfigMap.
    swap("current", "one");
    let mut release = Followed::new(&scratch.file("current/limits.yaml")).await;
    swap("..data", "one");
    swap("limits.yaml", "..data/limits.yaml");
    let mut map = Followed::new(&scratch.file("limits.yaml")).await;
    for version in ["two", "one"] {
        swap("current", version);
        release.until(version).await;
        swap("..data", version);
        map.until(version).await;
    }
    scratch.write("one/limits.yaml", "three");
    release.until("three").await;
    map.until("three").await;
}

#[tokio::test]
async fn a_directory_may_go_and_come_again() {
    let scratch = Scratch::new();
    let (outer, inner) = (scratch.file("outer"), scratch.file("outer/inner"));
    let file = inner.join("limits.yaml");
    fs::create_dir_all(&inner).unwrap();
    fs::write(&file, "0").unwrap();
    let mut followed = Followed::new(&file).await;
    for turn in 0..8 {
        let away = scratch.file(&format!("away-{turn}"));
        match turn % 4 {
            0 => fs::remove_dir_all(&inner).unwrap(),
            1 => fs::remove_dir_all(&outer).unwrap(),
            2 => fs::rename(&inner, away).unwrap(),
            _ => {
                // No event reports this: only a check finds it.
                fs::rename(&outer, away).unwrap();
                followed.request.notify_one();
            }
        }
        if turn > 3 {
            followed.until("").await;
        }
        fs::create_dir_all(&inner).unwrap();
        for change in ["a", "b"] {
            let text = format!("{turn}-{change}");
            fs::write(&file, &text).unwrap();
            followed.until(&text).await;
        }
    }
}
