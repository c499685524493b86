//! Collects the facts about this host that go into a record.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use ::host::mount_table::{self, Mount};
use results::environment::{Environment, Store};

use crate::guest;
use crate::placement::restore::Method;
use crate::sys;

/// Facts about host and store. Those about the database are filled in later.
pub(crate) fn collect(work: &Path, version: &str, commit: Option<&str>) -> Environment {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Environment {
        os: os_name(),
        kernel: line("/proc/sys/kernel/osrelease"),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu_model: cpu_model(&info),
        cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory_bytes(),
        load_average_before: line("/proc/loadavg").split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
        virtualization: virtualization(&info),
        guest: guest::label().map(str::to_owned),
        store: store(work),
        millrace_version: version.to_owned(),
        millrace_commit: commit.map(str::to_owned),
        ..Environment::default()
    }
}

/// The file system that contains `work`.
pub(crate) fn store(work: &Path) -> Store {
    let mounts = mount_table::read().unwrap_or_default();
    let device = fs::metadata(work).map_or(0, |facts| facts.dev());
    let (major, minor) = (libc::major(device), libc::minor(device));
    let (file_system, mount_options, device) = mounted_as(mounts, &format!("{major}:{minor}"), work).map_or_else(
        || ("unknown".to_owned(), String::new(), "unknown".to_owned()),
        |mount| (mount.kind, mount.options, mount.source),
    );
    Store {
        file_system,
        mount_options,
        device,
        free_bytes: sys::free_bytes(work).unwrap_or(0),
        reflink: Method::of_store(work) == Method::Reflink,
    }
}

/// The mount with that device number, else the deepest one above `path` (btrfs subvolumes have their own numbers).
fn mounted_as(table: Vec<Mount>, device: &str, path: &Path) -> Option<Mount> {
    let above = table.into_iter().filter(|mount| path.starts_with(&mount.directory));
    above.max_by_key(|mount| (mount.device == device, mount.directory.components().count()))
}

/// Main memory in bytes.
pub(crate) fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    kib.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn os_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Linux".to_owned(), |name| name.trim_matches('"').to_owned())
}

fn cpu_model(info: &str) -> String {
    let model = info.lines().find_map(|line| line.strip_prefix("model name"));
    model.and_then(|rest| rest.split_once(':')).map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn virtualization(info: &str) -> Option<String> {
    let mut seen = Vec::new();
    if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        seen.push("container");
    }
    if info.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor")) {
        seen.push("virtual machine");
    }
    (!seen.is_empty()).then(|| seen.join(" in a "))
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:30 / /var/tmp rw,noatime shared:5 - btrfs /dev/vdb rw,space_cache
31 22 0:31 / /dev/shm rw - tmpfs tmpfs rw
";

    #[test]
    fn mount_is_found_by_device_number_then_by_longest_point() {
        let table = || mount_table::parse(MOUNTS.as_bytes());
        let by_number = mounted_as(table(), "254:0", Path::new("/var/lib")).unwrap();
        assert_eq!([by_number.kind, by_number.options, by_number.source], ["ext4", "rw,relatime", "/dev/vda"]);
        let by_point = mounted_as(table(), "0:77", Path::new("/var/tmp/work")).unwrap();
        assert_eq!(by_point.kind, "btrfs");
        assert_eq!(mounted_as(Vec::new(), "0:1", Path::new("/")), None);
    }

    #[test]
    fn this_host_has_facts() {
        // A separate mount on every host, even if the root is only a directory of another system.
        let facts = collect(Path::new("/proc"), "0", None);
        assert!(!facts.kernel.is_empty() && facts.cpu_count > 0 && facts.memory_bytes > 1 << 20);
        assert_eq!(facts.store.file_system, "proc");
    }
}
