//! The first faults of the table: those that leave the server running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use tidegate_testkit::Redis;

/// The faults that open the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// Answers come far too late.
    Slow,
    /// There is no memory left.
    Full,
    /// Nothing may be written.
    ReadOnly,
    /// The user may run no scripts.
    NoRights,
    /// The server answers nothing, for a moment.
    Hung,
    /// Connections are closed as soon as they are open.
    Cut,
}

impl First {
    pub(crate) const ALL: [Self; 6] =
        [Self::Slow, Self::Full, Self::ReadOnly, Self::NoRights, Self::Hung, Self::Cut];
}

/// The user of the stores, so that permissions can be taken away from them alone.
pub(crate) const USER: &str = "limiter on >secret ~* &* +@all";
pub(crate) const LOGIN: &str = "://limiter:secret@";

/// A fault, until it is lifted.
pub(crate) struct Fault {
    first: First,
    stop: Arc<AtomicBool>,
    nagging: Option<JoinHandle<()>>,
}

impl Fault {
    /// Begins a fault of this server.
    pub(crate) fn begin(first: First, server: &Redis) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut nagging = None;
        match first {
            First::Slow => nagging = Some(nag(server, &stop, &["DEBUG", "SLEEP", "0.4"])),
            First::Cut => {
                nagging = Some(nag(server, &stop, &["CLIENT", "KILL", "USER", "limiter"]));
            }
            First::Hung => server.pause(),
            First::Full => set(server, "maxmemory", "1"),
            First::ReadOnly => set(server, "min-replicas-to-write", "9"),
            First::NoRights => acl(server, "-@scripting"),
        }
        Self { first, stop, nagging }
    }

    /// Ends it. The server has to be running.
    pub(crate) fn lift(mut self, server: &Redis) {
        self.stop();
        match self.first {
            First::Slow | First::Cut => {}
            First::Hung => server.resume(),
            First::Full => set(server, "maxmemory", "0"),
            First::ReadOnly => set(server, "min-replicas-to-write", "0"),
            First::NoRights => acl(server, "+@scripting"),
        }
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(nagging) = self.nagging.take() {
            nagging.join().expect("no panic");
        }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Repeats a command until it is told to stop, or the server is gone.
fn nag(server: &Redis, stop: &Arc<AtomicBool>, words: &'static [&'static str]) -> JoinHandle<()> {
    let (stop, mut connection) = (Arc::clone(stop), server.connect().expect("a connection"));
    thread::spawn(move || {
        while !stop.load(Ordering::SeqCst) && connection.call(words).is_ok() {
            thread::yield_now();
        }
    })
}

fn set(server: &Redis, name: &str, value: &str) {
    server.command(&["CONFIG", "SET", name, value]).or_panic();
}

fn acl(server: &Redis, rule: &str) {
    server.command(&["ACL", "SETUSER", "limiter", rule]).or_panic();
}
