//! The known servers of a client, up to a bound.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::known_server::KnownServer;
use crate::rules::ClientRules;

/// The known servers by scope. A new server replaces the one where least is lost: first a server without
/// current knowledge, then the one whose knowledge ends soonest. A server that a call holds stays, or it
/// would be known twice; so the bound can be exceeded while all are held.
#[derive(Default)]
pub(crate) struct KnownServers {
    known: HashMap<String, Arc<Mutex<KnownServer>>>,
    /// The servers to evict, the next one last, each with the end of its knowledge.
    evictable: Vec<(Option<Instant>, String)>,
    /// How many new servers are still to come before all servers are scanned again: a scan for each would
    /// take too long.
    until_next_scan: usize,
}

impl KnownServers {
    pub(crate) fn get(
        &mut self,
        scope: String,
        rules: &ClientRules,
        now: Instant,
    ) -> Arc<Mutex<KnownServer>> {
        if let Some(server) = self.known.get(&scope) {
            return Arc::clone(server);
        }
        if self.known.len() >= MAX_SERVERS {
            self.make_room(now);
            // A new server is the first to be evicted, unless it learns something.
            self.evictable.push((None, scope.clone()));
        }
        let server = Arc::new(Mutex::new(KnownServer::new(rules)));
        self.known.insert(scope, Arc::clone(&server));
        server
    }

    fn make_room(&mut self, now: Instant) {
        self.until_next_scan = self.until_next_scan.saturating_sub(1);
        while self.known.len() >= MAX_SERVERS
            && let Some((until, scope)) = self.next_evictable(now)
        {
            // A call may hold it by now, or have learned more.
            let is_free = |server| known_until(server, now).is_some_and(|known| known <= until);
            if self.known.get(&scope).is_some_and(is_free) {
                self.known.remove(&scope);
            }
        }
    }

    fn next_evictable(&mut self, now: Instant) -> Option<(Option<Instant>, String)> {
        if self.evictable.is_empty() && self.until_next_scan == 0 {
            self.until_next_scan = SCAN_INTERVAL;
            self.evictable = self.all_evictable(now);
        }
        self.evictable.pop()
    }

    /// The servers whose knowledge ends soonest: as many as exceed the bound, and some in advance.
    fn all_evictable(&self, now: Instant) -> Vec<(Option<Instant>, String)> {
        let all = self.known.iter();
        let free =
            all.filter_map(|(scope, server)| known_until(server, now).map(|until| (until, scope)));
        let mut free: Vec<_> = free.collect();
        free.sort_unstable();
        free.truncate(self.known.len().saturating_sub(MAX_SERVERS) + SCAN_INTERVAL);
        free.into_iter().rev().map(|(until, scope)| (until, scope.clone())).collect()
    }
}

/// The end of a server's knowledge, if it has any. `None` if a call holds the server.
fn known_until(server: &Arc<Mutex<KnownServer>>, now: Instant) -> Option<Option<Instant>> {
    (Arc::strong_count(server) == 1).then(|| server.lock().known_until(now))
}

/// The most servers: more than a program talks to at a time.
const MAX_SERVERS: usize = 1_024;
/// How many new servers there are between two scans.
const SCAN_INTERVAL: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_limits::ServerLimits;
    use std::time::Duration;

    fn seconds(n: usize) -> Duration {
        Duration::from_secs(n as u64)
    }

    /// Records a refusal for so many seconds.
    fn block(servers: &mut KnownServers, scope: &str, wait: Duration, now: Instant) {
        let told =
            ServerLimits { is_refused: true, retry_after: Some(wait), ..ServerLimits::default() };
        get(servers, scope, now).lock().record_response(&told, 0, now);
    }

    fn get(servers: &mut KnownServers, scope: &str, now: Instant) -> Arc<Mutex<KnownServer>> {
        servers.get(scope.to_owned(), &ClientRules::default(), now)
    }

    /// As many servers as there is room for. The later ones refuse for longer.
    fn full_of_blocks(now: Instant) -> KnownServers {
        let mut servers = KnownServers::default();
        for n in 0..MAX_SERVERS {
            block(&mut servers, &n.to_string(), seconds(1_000 + n), now);
        }
        servers
    }

    #[test]
    fn the_server_whose_limits_end_first_is_forgotten() {
        let now = Instant::now();
        let mut servers = full_of_blocks(now);
        for n in 0..2 * SCAN_INTERVAL {
            block(&mut servers, &format!("stranger {n}"), seconds(10_000), now);
            assert!(!servers.known.contains_key(&n.to_string()), "{n}");
            assert!(servers.known.contains_key(&(n + 1).to_string()), "{n}");
            assert_eq!(servers.known.len(), MAX_SERVERS);
        }
    }

    #[test]
    fn a_server_without_known_limits_is_forgotten_first() {
        let now = Instant::now();
        let mut servers = full_of_blocks(now);
        for n in 0..2 * SCAN_INTERVAL {
            get(&mut servers, &format!("stranger {n}"), now);
        }
        // The first of them had to evict another server.
        assert!((1..MAX_SERVERS).all(|n| servers.known.contains_key(&n.to_string())));
        // An expired refusal counts as no knowledge.
        let later = now + seconds(1_000 + MAX_SERVERS / 2);
        for n in 0..MAX_SERVERS / 4 {
            block(&mut servers, &format!("late {n}"), seconds(10), later);
        }
        let rest = MAX_SERVERS / 2 + 1..MAX_SERVERS;
        assert!(rest.into_iter().all(|n| servers.known.contains_key(&n.to_string())));
    }

    #[test]
    fn a_server_in_use_is_not_forgotten() {
        let now = Instant::now();
        let mut servers = KnownServers::default();
        let calls: Vec<_> =
            (0..2 * MAX_SERVERS).map(|n| get(&mut servers, &n.to_string(), now)).collect();
        assert_eq!(servers.known.len(), calls.len());
        assert!(Arc::ptr_eq(&calls[0], &get(&mut servers, "0", now)));
        drop(calls);
        for n in 0..=SCAN_INTERVAL {
            get(&mut servers, &format!("stranger {n}"), now);
        }
        assert_eq!(servers.known.len(), MAX_SERVERS);
    }
}
