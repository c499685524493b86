//! Memory that is available to this process: on the host, and in its control group.

use std::path::{Path, PathBuf};

use super::whole_file;

/// Where control groups are mounted: version 2 only, both versions, version 1.
const GROUPS: [(&str, &Version); 3] =
    [("/sys/fs/cgroup", &VERSION_2), ("/sys/fs/cgroup/unified", &VERSION_2), ("/sys/fs/cgroup/memory", &VERSION_1)];
/// How many groups are checked: the process' own and those above it.
const DEPTH_MAX: usize = 32;

/// The file names of a version of control groups.
struct Version {
    /// Prefix of the group's line of /proc/self/cgroup, after its number.
    controller: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat` with memory that the kernel can reclaim.
    reclaimable: [&'static str; 2],
}

const VERSION_2: Version =
    Version { controller: ":", limit: "memory.max", used: "memory.current", reclaimable: ["inactive_file ", "active_file "] };
const VERSION_1: Version = Version {
    controller: "memory:",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: ["total_inactive_file ", "total_active_file "],
};

/// Bytes that this process can allocate before the host swaps (`MemAvailable`, proc(5)) or its control group reaches a limit.
/// `None` if the kernel does not show them.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    [of_host(), of_group()].into_iter().flatten().min()
}

/// The complete text of a kernel file.
fn text_of(file: &Path) -> Option<String> {
    const BYTES_MAX: usize = 64 << 10;
    String::from_utf8(whole_file::read(file.to_str()?, BYTES_MAX).ok()?.0).ok()
}

fn of_host() -> Option<u64> {
    let text = text_of(Path::new("/proc/meminfo"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn of_group() -> Option<u64> {
    let groups = text_of(Path::new("/proc/self/cgroup"))?;
    GROUPS.into_iter().filter_map(|(root, version)| of_version(&groups, Path::new(root), version)).min()
}

/// The smallest number of bytes that the process' group and those above it leave. A container sees its own group at the root,
/// whatever path /proc shows.
fn of_version(groups: &str, root: &Path, version: &Version) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.split_once(':')?.1.strip_prefix(version.controller))?;
    let own: PathBuf = root.join(path.trim_start_matches('/'));
    own.ancestors().take(DEPTH_MAX).take_while(|group| group.starts_with(root)).filter_map(|group| left_of(group, version)).min()
}

fn left_of(group: &Path, version: &Version) -> Option<u64> {
    let number = |name: &str| text_of(&group.join(name))?.trim().parse::<u64>().ok();
    let limit = number(version.limit)?;
    let used = number(version.used)?;
    let stat = text_of(&group.join("memory.stat")).unwrap_or_default();
    let value = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap_or(0);
    let reclaimable: u64 = version.reclaimable.into_iter().map(value).sum();
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::segment::tests::tempdir::TempDir;

    #[test]
    fn the_kernel_says_how_much_there_is() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn the_least_of_a_group_and_those_above_it_is_what_there_is() {
        let place = TempDir::new();
        let root = Path::new(place.path());
        let own = root.join("pod/container");
        std::fs::create_dir_all(&own).unwrap();
        let set = |group: &Path, limit: &str| {
            let files = [
                ("memory.max", limit),
                ("memory.current", "300\n"),
                ("memory.stat", "anon 1\ninactive_file 60\nactive_file 40\n"),
            ];
            files.map(|(name, text)| std::fs::write(group.join(name), text).unwrap())
        };
        set(&own, "max\n");
        let asked = |groups: &str| of_version(groups, root, &VERSION_2);
        assert_eq!(asked("0::/pod/container\n"), None);
        set(&root.join("pod"), "1000\n");
        assert_eq!(asked("1:cpu:/x\n0::/pod/container\n"), Some(800));
        set(&own, "500\n");
        assert_eq!(asked("0::/pod/container\n"), Some(300));
        // The path is that of another namespace.
        set(root, "250\n");
        assert_eq!(asked("0::/host/scope\n"), Some(50));
        assert_eq!(asked("4:memory:/pod\n"), None);
    }
}
