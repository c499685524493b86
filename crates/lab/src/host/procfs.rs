//! Facts about processes and the host, read from /proc.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use ::host::mount_table::{self, Mount};
use results::compare::CpuTime;

use crate::sys;

/// A process as in /proc/PID/stat. Times in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    zombie: bool,
    user: u64,
    system: u64,
    start: u64,
}

/// Seconds of all processors since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct HostCpu {
    /// All requested time, including steal time.
    pub(crate) busy_s: f64,
    pub(crate) total_s: f64,
    /// Steal time: requested while the hypervisor gave the processors to other machines.
    pub(crate) stolen_s: f64,
}

impl HostCpu {
    /// The difference from `before` to this moment. Processors that poll instead of sleeping (`polling`) also lose idle time to steal.
    /// The kernel does not report which time was lost, so steal time is divided in proportion to work and idling.
    pub(crate) fn since(&self, before: &Self, polling: bool) -> Self {
        let (wanted, total_s) = (self.busy_s - before.busy_s, self.total_s - before.total_s);
        let stolen = self.stolen_s - before.stolen_s;
        let (worked, given) = (wanted - stolen, total_s - stolen);
        let stolen_s = if polling && given > 0.0 { stolen * worked / given } else { stolen };
        Self { busy_s: worked + stolen_s, total_s, stolen_s }
    }
}

/// Start time of a process in ticks since boot; `None` if it is not alive.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    let stat = read_stat(pid)?;
    (!stat.zombie).then_some(stat.start)
}

/// Identity of this boot.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Identity of this host: its machine id, and its name for hosts copied from one image.
pub(crate) fn host_identity() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    format!("{} {}", read("/etc/machine-id"), read("/proc/sys/kernel/hostname"))
}

/// The mount that contains `path`; `None` if the kernel does not report it.
pub(crate) fn mount_of(path: &Path) -> Option<Mount> {
    deepest(mount_table::read().ok()?, path)
}

/// The mount with the longest prefix of the path; of two at one directory, the later one.
fn deepest(table: Vec<Mount>, path: &Path) -> Option<Mount> {
    let above = table.into_iter().filter(|mount| path.starts_with(&mount.directory));
    above.max_by_key(|mount| mount.directory.components().count())
}

/// `root` and all its descendants, `root` first.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for (pid, stat) in processes() {
        children.entry(stat.parent).or_default().push(pid);
    }
    let mut found = vec![root];
    let mut seen = HashSet::from([root]);
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        for child in children.get(pid).into_iter().flatten() {
            if seen.insert(*child) {
                found.push(*child);
            }
        }
        next += 1;
    }
    found
}

/// Running descendants of this process, without zombies.
pub(crate) fn own_descendants() -> Vec<u32> {
    let own = std::process::id();
    tree(own).into_iter().filter(|pid| *pid != own && start_ticks(*pid).is_some()).collect()
}

/// Children of this process that have ended and were not reaped.
pub(crate) fn own_zombies() -> Vec<u32> {
    let own = std::process::id();
    processes().into_iter().filter(|(_, stat)| stat.zombie && stat.parent == own).map(|(pid, _)| pid).collect()
}

/// Processor time of `root` and its descendants, including those that ended: the kernel
/// adds a reaped child's time to its parent.
pub(crate) fn tree_cpu(root: u32) -> CpuTime {
    let mut ticks = (0, 0);
    for pid in tree(root) {
        if let Some(stat) = read_stat(pid) {
            ticks = (ticks.0 + stat.user, ticks.1 + stat.system);
        }
    }
    let per_second = sys::ticks_per_second();
    CpuTime { user_s: ticks.0 as f64 / per_second, sys_s: ticks.1 as f64 / per_second }
}

/// Bytes that `root` and its descendants, including those that ended, received from read calls, without the tree of `without`.
/// `None` if the kernel does not report them.
pub(crate) fn tree_read_bytes(root: u32, without: Option<u32>) -> Option<u64> {
    let mut bytes = None;
    let left_out = without.map(tree).unwrap_or_default();
    for pid in tree(root).into_iter().filter(|pid| !left_out.contains(pid)) {
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/io")) else { continue };
        let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        if let Some(read) = read.and_then(|number| number.trim().parse::<u64>().ok()) {
            bytes = Some(bytes.unwrap_or(0) + read);
        }
    }
    bytes
}

/// Processor seconds of the complete host. Steal time counts as busy, because it was requested.
pub(crate) fn host_cpu() -> HostCpu {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    parse_host_cpu(&text, sys::ticks_per_second()).unwrap_or_default()
}

fn parse_host_cpu(text: &str, per_second: f64) -> Option<HostCpu> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal (guest time is inside user)
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let total: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let seconds = |ticks: u64| ticks as f64 / per_second;
    let stolen = ticks.get(7).copied().unwrap_or(0);
    Some(HostCpu { busy_s: seconds(total.saturating_sub(idle)), total_s: seconds(total), stolen_s: seconds(stolen) })
}

fn processes() -> Vec<(u32, Stat)> {
    pids().filter_map(|pid| Some((pid, read_stat(pid)?))).collect()
}

/// The processes that this process can see.
pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn read_stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields of proc(5): 3 state, 4 ppid, 14 utime, 15 stime, 16 cutime, 17 cstime, 22
/// starttime. The name (field 2) may contain blanks and parentheses, so counting starts
/// after the last closing one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: u32::try_from(number(4)?).ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        user: number(14)? + number(16)?,
        system: number(15)? + number(17)?,
        start: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn stat_with_brackets_and_blanks_in_the_name_is_read() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 300 400 20 0 1 0 987 1 2";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat, Stat { parent: 7, zombie: false, user: 310, system: 420, start: 987 });
        assert_eq!(parse_stat("42 (cut"), None);
        assert_eq!(parse_stat("42 (cut) S 7"), None);
    }

    #[test]
    fn mount_of_a_path_is_the_deepest_and_the_latest() {
        let text = "21 1 8:1 / / rw - ext4 /dev/sda rw\n40 21 0:44 / /mnt/pg rw - nfs4 filer:/pg rw\n\
                    41 21 0:45 / /mnt/pg rw - tmpfs none rw\n42 21 0:46 / /mnt/my\\040disk rw - xfs /dev/sdb rw";
        let of = |path: &str| deepest(mount_table::parse(text.as_bytes()), Path::new(path)).unwrap().kind;
        assert_eq!([of("/var/x"), of("/mnt/pg/a"), of("/mnt/pgx"), of("/mnt/my disk/x")], ["ext4", "tmpfs", "ext4", "xfs"]);
    }

    #[test]
    fn host_time_counts_idle_and_iowait_as_not_busy() {
        let host = parse_host_cpu("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 1 2\n", 100.0).unwrap();
        assert!((host.total_s - 10.0).abs() < 1e-9);
        assert!((host.busy_s - 1.6).abs() < 1e-9 && host.stolen_s.abs() < 1e-9);
        let guest = parse_host_cpu("cpu  100 0 50 800 40 5 5 200 0 0\n", 100.0).unwrap();
        assert!((guest.busy_s - 3.6).abs() < 1e-9 && (guest.stolen_s - 2.0).abs() < 1e-9);
    }

    #[test]
    fn steal_time_of_polling_processors_is_divided_between_idling_and_work() {
        let before = HostCpu { busy_s: 10.0, total_s: 40.0, stolen_s: 1.0 };
        // Of 20 s, 2 were stolen; of the other 18 s, 4.5 were work.
        let after = HostCpu { busy_s: 16.5, total_s: 60.0, stolen_s: 3.0 };
        let asleep = after.since(&before, false);
        assert!((asleep.busy_s - 6.5).abs() < 1e-9 && (asleep.stolen_s - 2.0).abs() < 1e-9, "{asleep:?}");
        let polling = after.since(&before, true);
        assert!((polling.busy_s - 5.0).abs() < 1e-9 && (polling.stolen_s - 0.5).abs() < 1e-9, "{polling:?}");
        assert_eq!(before.since(&before, true), HostCpu::default());
    }

    #[test]
    fn cpu_of_an_ended_grandchild_is_counted() {
        // The shell's child uses processor time and ends; then the shell waits on stdin.
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo; read x"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 1];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let cpu = tree_cpu(shell.id());
        assert!(tree(shell.id()).contains(&shell.id()));
        assert!(tree_read_bytes(shell.id(), None).is_some());
        assert_eq!(tree_read_bytes(shell.id(), Some(shell.id())), None, "a tree that is left out has nothing");
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(cpu.total_s() >= 0.02, "only {cpu:?}");
        assert_eq!(start_ticks(shell.id()), None);
    }
}
