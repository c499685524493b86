//! What /proc says of the thread that asks: a request has its user and group, and neither its other groups nor its signals.

use std::fs;

/// SIGKILL in a mask of /proc/PID/status: bit of signal 9.
const KILL: u64 = 1 << 8;

/// The supplementary groups of a thread; none where it is gone, or of another PID namespace.
pub(crate) fn groups(thread: u32) -> Vec<u32> {
    let status = status(thread).unwrap_or_default();
    let groups = field(&status, "Groups:").unwrap_or_default();
    groups.split_whitespace().filter_map(|group| group.parse().ok()).collect()
}

/// Whether a thread was killed and waits only for the answer to its request: SIGKILL is pending. The kernel turns every signal that
/// ends a process without a core dump into it.
pub(crate) fn is_killed(thread: u32) -> bool {
    let Some(status) = status(thread) else { return thread != 0 };
    let is_pending =
        |name| field(&status, name).and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & KILL != 0);
    is_pending("SigPnd:") || is_pending("ShdPnd:")
}

fn status(thread: u32) -> Option<String> {
    if thread == 0 {
        return None;
    }
    fs::read(format!("/proc/{thread}/status")).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_has_its_groups_and_is_not_killed() {
        let me = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let groups_of_kernel: Vec<u32> =
            rustix::process::getgroups().unwrap().into_iter().map(rustix::process::Gid::as_raw).collect();
        assert_eq!(groups(me), groups_of_kernel);
        assert!(!is_killed(me) && !is_killed(0));
    }

    #[test]
    fn a_stopped_process_that_was_killed_is_known() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_killed(child.id()), "gone");
    }
}
