//! The keepers of a filer's mounts, which are processes that no test starts or waits for.

use std::process::Command;

/// Process numbers of the keepers of all mounts of the server on this port, in the order of their start.
pub fn of(port: u16) -> Vec<u32> {
    matching(&format!(":{port}/"))
}

/// As [`of`], for mounts whose URL contains this text.
fn matching(url: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<(u64, u32)> = pids.filter_map(|pid| Some((age(pid, url)?, pid))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

/// The start time of a process in ticks since boot. `None` if it is not a keeper of such a mount.
fn age(pid: u32, url: &str) -> Option<u64> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    let is_keeper = line.starts_with("millrace\0keeper\0--mount\0") && line.contains(url);
    is_keeper.then(|| stat(pid)).flatten()?.get(19)?.parse().ok()
}

/// The fields of /proc/PID/stat from the state on (proc(5): field 3).
pub fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split_whitespace().map(str::to_owned).collect())
}

/// Sends SIGKILL to a keeper.
pub fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
}

/// Ends all keepers. A keeper of a server that never comes back would otherwise wait for it, as intended.
pub fn end(port: u16) {
    end_matching(&format!(":{port}/"));
}

/// As [`end`], for mounts whose URL contains this text.
pub fn end_matching(url: &str) {
    for _ in 0..100 {
        let left = matching(url);
        if left.is_empty() {
            return;
        }
        left.into_iter().for_each(kill);
    }
}
