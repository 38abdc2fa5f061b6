//! A progress bar on standard error, if that is a terminal.

#![allow(clippy::float_arithmetic, reason = "a progress bar is not a decision")]

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use tidegate_sim::WorkProgress;

/// Runs `work` and shows its progress.
pub(crate) fn with_progress_bar<T: Send>(name: &str, work: impl FnOnce(&WorkProgress) -> T) -> T {
    let progress = WorkProgress::default();
    if !stderr().is_terminal() {
        return work(&progress);
    }
    thread::scope(|scope| {
        let (done, is_done) = channel::<()>();
        let progress = &progress;
        scope.spawn(move || {
            while is_done.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                draw(name, progress);
            }
            let _ = write!(stderr(), "\r\x1b[K");
        });
        let _stop: Sender<()> = done;
        work(progress)
    })
}

fn draw(name: &str, progress: &WorkProgress) {
    let text = match progress.share() {
        Some(share) => {
            let full = (share * f64::from(WIDTH)) as usize;
            let (full, empty) = ("█".repeat(full), "░".repeat(WIDTH as usize - full));
            format!("{full}{empty} {:3.0} %", share * 100.0)
        }
        None => format!("{} MiB", progress.done() >> 20),
    };
    let _ = write!(stderr(), "\r\x1b[K{name} {text}");
    let _ = stderr().flush();
}

const EVERY: Duration = Duration::from_millis(100);
const WIDTH: u32 = 40;
