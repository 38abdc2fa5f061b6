//! How many files, and therefore connections, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Everything that needs open files.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFileNeeds {
    /// Connections of each listener.
    pub(super) connections: usize,
    /// Listeners, each of which may be full at the same time as the others.
    pub(super) listeners: usize,
    /// Connections of operators, which must not wait for those of clients.
    pub(super) operators: usize,
    pub(super) workers: usize,
}

impl OpenFileNeeds {
    /// Raises the limit of open files as far as needed and allowed, and returns how many connections
    /// each listener can have. A tenth as many again can wait.
    pub(super) fn allowed_connections(self) -> usize {
        let waiting = (self.connections / 10).max(8);
        let needed = self.connections.saturating_add(waiting).saturating_mul(self.listeners);
        let needed = needed.saturating_add(self.reserved()) as u64;
        let limit = getrlimit(Resource::Nofile);
        let (Some(current), most) = (limit.current, limit.maximum.unwrap_or(u64::MAX)) else {
            return self.connections;
        };
        let raised = current.max(needed.min(most));
        if raised > current {
            // A lower limit than needed is not an error: connections beyond it wait.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
        }
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        self.share_of(usize::try_from(files).unwrap_or(usize::MAX))
    }

    /// The connections of one listener, given this many files. At least half of the files are for
    /// clients.
    fn share_of(self, files: usize) -> usize {
        let for_clients = files.saturating_sub(self.reserved()).max(files / 2);
        self.connections.min(for_clients / self.listeners.max(1)).max(1)
    }

    /// Files for the store, for operators and for the process itself.
    const fn reserved(self) -> usize {
        let workers = self.workers.saturating_mul(RESERVED_FOR_A_WORKER);
        RESERVED.saturating_add(self.operators).saturating_add(workers)
    }
}

const RESERVED: usize = 32;
/// Listeners, a runtime, connections to the store.
const RESERVED_FOR_A_WORKER: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_share_the_files_there_are() {
        let needs = OpenFileNeeds { connections: 10_000, listeners: 3, operators: 64, workers: 2 };
        assert_eq!(needs.share_of(usize::MAX), 10_000);
        assert_eq!(needs.share_of(30_000 + 128), 10_000);
        assert_eq!(needs.share_of(30_000), (30_000 - 128) / 3);
        assert_eq!(needs.share_of(1_024), 298);
        // Too few for what is reserved: clients get half.
        assert_eq!(needs.share_of(100), 16);
        assert_eq!(needs.share_of(0), 1);
        assert_eq!(OpenFileNeeds { listeners: 0, ..needs }.share_of(1_024), 896);
    }
}
