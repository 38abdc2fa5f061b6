//! The resources that this process uses, as reported by Linux.

use std::fs;

/// The resources of this process, as far as the system reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) cpu_nanos: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
}

impl ProcessUsage {
    /// The current values; empty if there is no `/proc`.
    pub(crate) fn now() -> Self {
        let read = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        Self {
            resident_bytes: read("status").and_then(|text| resident_bytes(&text)),
            cpu_nanos: read("stat").and_then(|text| cpu_nanos(&text)),
            open_fds: fs::read_dir("/proc/self/fd").ok().and_then(|it| it.count().try_into().ok()),
            max_fds: read("limits").and_then(|text| max_fds(&text)),
        }
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// The fourteenth and fifteenth field, in ticks of 10 ms. The second field, a name in parentheses, can
/// contain spaces.
fn cpu_nanos(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()?.checked_add(fields.next()?.ok()?)?;
    ticks.checked_mul(10_000_000)
}

fn max_fds(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_statistics_of_linux_are_read() {
        let status = "Name:\ttidegate\nVmRSS:\t    9988 kB\nThreads:\t3\n";
        assert_eq!(resident_bytes(status), Some(9_988 << 10));
        let stat = "12 (a )b c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 3";
        assert_eq!(cpu_nanos(stat), Some(2_000_000_000));
        let limits =
            "Limit  Soft  Hard\nMax open files            1024                 4096 files\n";
        assert_eq!(max_fds(limits), Some(1_024));
    }

    #[test]
    fn malformed_process_statistics_are_ignored() {
        assert_eq!((resident_bytes(""), cpu_nanos("1 (x) S 1"), max_fds("x")), (None, None, None));
    }
}
