//! Finds the filers of this user that run on this host, without any record of them: processes
//! `millrace serve`, and their listening sockets.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error_printing::refusal;

/// A running filer.
#[derive(Debug, PartialEq, Eq)]
struct RunningFiler {
    pid: u32,
    admin: PathBuf,
}

/// The admin socket of the only filer that this user runs. `phrase` begins the error.
///
/// # Errors
/// No filer runs, or several run; the error lists them.
pub(super) fn only_admin_socket(phrase: &str) -> anyhow::Result<PathBuf> {
    let mut found = running_filers(Path::new("/proc"));
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only.admin),
        (None, _) => {
            let hint = "start one with `millrace serve DIR`; name that of another user by --admin PATH, or in MILLRACE_ADMIN";
            Err(refusal(format!("{phrase}: no filer of this user runs on this host"), hint))
        }
        (Some(last), false) => {
            found.push(last);
            let each = found.iter().map(|filer| format!("--admin {} (pid {})", filer.admin.display(), filer.pid));
            let hint = format!("choose one: {}", each.collect::<Vec<_>>().join(", "));
            Err(refusal(format!("{phrase}: {} filers of this user run on this host", found.len()), hint))
        }
    }
}

fn running_filers(proc: &Path) -> Vec<RunningFiler> {
    let me = std::fs::metadata(proc.join("self")).map(|found| found.uid());
    let processes = std::fs::read_dir(proc).into_iter().flatten().flatten();
    let mut serving: Vec<(u32, PathBuf)> = processes
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let is_mine = entry.metadata().ok()?.uid() == *me.as_ref().ok()?;
            (is_mine && serves(&entry.path())).then(|| (pid, entry.path()))
        })
        .collect();
    serving.sort();
    let listening = std::fs::read_to_string(proc.join("net/unix")).map(|text| listening_sockets(&text)).unwrap_or_default();
    let found =
        serving.into_iter().filter_map(|(pid, process)| Some(RunningFiler { pid, admin: admin_socket(&process, &listening)? }));
    found.collect()
}

/// Whether a process is `millrace serve …`.
fn serves(process: &Path) -> bool {
    let arguments = std::fs::read(process.join("cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|byte| *byte == 0);
    let program = arguments.next().unwrap_or_default();
    let is_ours = program.rsplit(|byte| *byte == b'/').next() == Some(b"millrace");
    is_ours && arguments.any(|argument| argument == b"serve")
}

/// The path of a listening Unix socket of a process.
fn admin_socket(process: &Path, listening: &HashMap<u64, PathBuf>) -> Option<PathBuf> {
    let descriptors = std::fs::read_dir(process.join("fd")).ok()?.flatten();
    let mut sockets = descriptors.filter_map(|descriptor| {
        let target = std::fs::read_link(descriptor.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
        listening.get(&inode)
    });
    // The path is as it was bound. A relative one begins at the working directory of the process.
    Some(std::fs::read_link(process.join("cwd")).unwrap_or_default().join(sockets.next()?))
}

/// Paths of the listening sockets of /proc/net/unix, as they were bound, by inode number.
fn listening_sockets(text: &str) -> HashMap<u64, PathBuf> {
    const ACCEPTS: &str = "00010000"; // __SO_ACCEPTCON
    let socket = |line: &str| {
        // The inode number is padded with spaces. A single space separates it from the path, which
        // may contain spaces too.
        let mut fields = line.splitn(7, ' ');
        let flags = fields.nth(3)?;
        let (inode, path) = fields.nth(2)?.trim_start().split_once(' ')?;
        let is_named = flags == ACCEPTS && !path.starts_with('@');
        is_named.then_some((inode.parse().ok()?, PathBuf::from(path)))
    };
    text.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_and_have_a_path_are_known_by_their_inode() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01    21 /run/with a space/admin.sock
0000000000000000: 00000003 00000000 00000000 0001 03 22 /run/connected.sock
0000000000000000: 00000002 00000000 00010000 0001 01 23 @abstract
0000000000000000: 00000002 00000000 00010000 0001 01 24
0000000000000000: 00000002 00000000 00010000 0001 01 123456 state/admin.sock
";
        let found = listening_sockets(text);
        assert_eq!(found, HashMap::from([(21, "/run/with a space/admin.sock".into()), (123_456, "state/admin.sock".into())]));
    }
}
