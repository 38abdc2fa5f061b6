//! `INFO`: statistics about the server and its Redis clients.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// Counters of a server's Redis clients and their commands.
#[derive(Debug)]
pub(crate) struct RespClientCounters {
    started: Instant,
    entered: AtomicU64,
    connected: AtomicU64,
    commands: AtomicU64,
}

/// A connected client, until the guard is dropped.
#[derive(Debug)]
pub(super) struct RespClientGuard<'a> {
    clients: &'a RespClientCounters,
    id: u64,
}

impl RespClientCounters {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            entered: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            commands: AtomicU64::new(0),
        }
    }

    /// Counts a client that has connected.
    pub(super) fn connect(&self) -> RespClientGuard<'_> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        RespClientGuard { clients: self, id: self.entered.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// Counts commands that were read.
    pub(super) fn count(&self, commands: u64) {
        self.commands.fetch_add(commands, Ordering::Relaxed);
    }
}

impl RespClientGuard<'_> {
    pub(super) const fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for RespClientGuard<'_> {
    fn drop(&mut self) {
        self.clients.connected.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The requested sections, or all of them if none is named.
pub(super) fn text(sections: &[&[u8]], clients: &RespClientCounters) -> String {
    let wants = |name: &str| {
        let names = [name, "all", "default", "everything"];
        let is_named = |section: &&[u8]| {
            names.iter().any(|name| section.eq_ignore_ascii_case(name.as_bytes()))
        };
        sections.is_empty() || sections.iter().any(is_named)
    };
    let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let (mut text, uptime) = (String::new(), clients.started.elapsed().as_secs());
    if wants("server") {
        let version = env!("CARGO_PKG_VERSION");
        let _ = write!(
            text,
            "# Server\r\nredis_version:{SPOKEN_VERSION}\r\nredis_mode:standalone\r\n\
             tidegate_version:{version}\r\nuptime_in_seconds:{uptime}\r\n\r\n"
        );
    }
    if wants("clients") {
        let connected = load(&clients.connected);
        let _ = write!(text, "# Clients\r\nconnected_clients:{connected}\r\n\r\n");
    }
    if wants("stats") {
        let (entered, commands) = (load(&clients.entered), load(&clients.commands));
        let _ = write!(
            text,
            "# Stats\r\ntotal_connections_received:{entered}\r\n\
             total_commands_processed:{commands}\r\n\r\n"
        );
    }
    text
}

/// The Redis version that the protocol corresponds to. Clients derive from it which commands exist.
pub(super) const SPOKEN_VERSION: &str = "7.2.0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_while_they_are_there() {
        let clients = RespClientCounters::new();
        let (first, second) = (clients.connect(), clients.connect());
        assert_eq!((first.id(), second.id()), (1, 2));
        drop(first);
        clients.count(5);
        let all = text(&[], &clients);
        for line in [
            "redis_version:7.2.0",
            "connected_clients:1",
            "total_connections_received:2",
            "total_commands_processed:5",
        ] {
            assert!(all.contains(&format!("{line}\r\n")), "{all}");
        }
    }

    #[test]
    fn a_section_can_be_asked_for() {
        let clients = RespClientCounters::new();
        let one = text(&[b"CLIENTS"], &clients);
        assert!(one.contains("# Clients") && !one.contains("# Server"));
        assert_eq!(text(&[b"everything"], &clients), text(&[], &clients));
        assert_eq!(text(&[b"keyspace"], &clients), "");
    }
}
