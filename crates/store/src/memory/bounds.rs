//! Derives the store's bounds from the memory that this process can use.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use super::overflow::OverflowCounters;

/// The memory per key: a slot of 40 bytes (a log: 80) in a table that is two thirds full, and the
/// allocator's overhead while tables grow. Measured with `scripts/bench memory`.
const KEY_BYTES: usize = 96;

/// The store uses one in this many parts of the available memory by default.
const PART: u64 = 2;

/// One in this many parts of the store's memory is for logs.
const PART_OF_LOGS: usize = 4;

/// The memory that is assumed if it cannot be determined.
const UNKNOWN: u64 = 4 << 30;

/// The default memory of a store.
pub(super) fn default_bytes() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| memory_under(Path::new("/")).unwrap_or(UNKNOWN) / PART)
}

/// The keys that fit, with the shared counters beside them, and the bytes for logs.
pub(super) fn split(bytes: u64) -> (usize, usize) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let logs = bytes / PART_OF_LOGS;
    let slots = (bytes - logs) / KEY_BYTES;
    (slots - OverflowCounters::most_cells_among(slots), logs)
}

/// The memory of that many keys and bytes of logs.
pub(super) fn bytes_of(keys: usize, log_bytes: usize) -> usize {
    let slots = keys.saturating_add(OverflowCounters::most_cells(keys));
    slots.saturating_mul(KEY_BYTES).saturating_add(log_bytes)
}

/// The memory that this process can use: the machine's, or less if its control group has a bound. Files
/// are read under `root`.
fn memory_under(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().as_deref().and_then(total);
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let bounds = groups.lines().filter_map(bounds_of).flat_map(|(files, group, name)| {
        let files = root.join(files);
        ancestors(&group).map(move |group| files.join(group).join(name)).collect::<Vec<_>>()
    });
    let bounds = bounds.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    // A group without a bound has `max`, or a number that no machine reaches.
    bounds.chain(machine).min()
}

/// `MemTotal:       24684164 kB`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

/// The file with the bound of a control group, by its line of `/proc/self/cgroup`: `0::/group` for
/// version 2, `4:memory:/group` for version 1.
fn bounds_of(line: &str) -> Option<(&'static str, PathBuf, &'static str)> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    // Relative, and without `..`, so that the path stays below the control groups.
    let group = Path::new(group).components().filter(|part| matches!(part, Component::Normal(_)));
    let group = group.collect();
    match controllers {
        "" => Some(("sys/fs/cgroup", group, "memory.max")),
        _ if controllers.split(',').any(|controller| controller == "memory") => {
            Some(("sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
        }
        _ => None,
    }
}

/// A group and its ancestors, whose bounds hold for it too. In a container often only the outermost is
/// visible.
fn ancestors(group: &Path) -> impl Iterator<Item = PathBuf> {
    group.ancestors().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine as its files describe it.
    fn memory(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root =
            std::env::temp_dir().join(format!("tidegate-room-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = memory_under(&root);
        let _ = fs::remove_dir_all(root);
        found
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal:        8000000 kB\nMemFree:          100000 kB\n");
    const ALL: u64 = 8_000_000 * 1_024;

    #[test]
    fn the_machines_memory_counts_where_no_group_has_a_bound() {
        assert_eq!(memory("plain", &[MACHINE]), Some(ALL));
        assert_eq!(memory("nothing", &[]), None);
        assert_eq!(memory("odd", &[("proc/meminfo", "MemTotal: lots\n")]), None);
        let group =
            [MACHINE, ("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")];
        assert_eq!(memory("unbounded", &group), Some(ALL));
    }

    #[test]
    fn the_nearest_bound_of_the_second_version_counts() {
        let groups = |own, around| {
            [
                MACHINE,
                ("proc/self/cgroup", "0::/system.slice/tidegate.service\n"),
                ("sys/fs/cgroup/system.slice/tidegate.service/memory.max", own),
                ("sys/fs/cgroup/system.slice/memory.max", around),
            ]
        };
        assert_eq!(memory("own", &groups("536870912\n", "max\n")), Some(512 << 20));
        assert_eq!(memory("around", &groups("max\n", "1073741824\n")), Some(1 << 30));
        assert_eq!(memory("both", &groups("1073741824\n", "536870912\n")), Some(512 << 20));
        assert_eq!(memory("large", &groups("99999999999999\n", "max\n")), Some(ALL));
    }

    #[test]
    fn a_container_sees_its_own_bound_as_the_outermost() {
        let second =
            [MACHINE, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "268435456\n")];
        assert_eq!(memory("second", &second), Some(256 << 20));
        let first = [
            MACHINE,
            ("proc/self/cgroup", "5:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n0::/docker/1f\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n"),
        ];
        assert_eq!(memory("first", &first), Some(256 << 20));
        let none = [
            MACHINE,
            ("proc/self/cgroup", "4:memory:/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(memory("none", &none), Some(ALL));
    }

    #[test]
    fn a_group_is_not_looked_for_elsewhere() {
        let group = [
            MACHINE,
            ("proc/self/cgroup", "0::/../../outside\n"),
            ("outside/memory.max", "1\n"),
            ("sys/fs/cgroup/outside/memory.max", "268435456\n"),
        ];
        assert_eq!(memory("outside", &group), Some(256 << 20));
    }

    #[test]
    fn keys_and_logs_fit_into_what_they_were_made_of() {
        for bytes in [0, 1, 1_000_000, 64 << 20, 512 << 20, 16 << 30] {
            let (keys, logs) = split(bytes);
            assert!(bytes < 1 << 20 || bytes_of(keys, logs) as u64 <= bytes, "{bytes}");
            assert!(bytes < 1 << 20 || bytes_of(keys, logs) as u64 > bytes / 10 * 9, "{bytes}");
        }
        assert!(default_bytes() > 0);
    }
}
