//! The user, groups and namespaces of this process, and its host. Users and groups are numbers of the mounts' user namespace.

use super::raw::call;
use crate::user_namespace::{group_outside, user_outside};

/// Sends SIGKILL to a process.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// The effective uid of this process.
pub(crate) fn effective_uid() -> u32 {
    let uid = rustix::process::geteuid().as_raw();
    user_outside(uid).unwrap_or(uid)
}

/// The effective gid of this process.
pub(crate) fn effective_gid() -> u32 {
    let gid = rustix::process::getegid().as_raw();
    group_outside(gid).unwrap_or(gid)
}

/// Supplementary groups of the process; empty if they cannot be read.
pub(crate) fn groups() -> Vec<u32> {
    let groups = rustix::process::getgroups().unwrap_or_default();
    groups.into_iter().map(rustix::process::Gid::as_raw).map(|gid| group_outside(gid).unwrap_or(gid)).collect()
}

/// Soft and hard limit of a resource (`RLIMIT_*`). No limit if a seccomp filter refuses the question, at which rustix' function panics.
pub(crate) fn limits(resource: u32) -> (u64, u64) {
    let mut limits = libc::rlimit64 { rlim_cur: libc::RLIM64_INFINITY, rlim_max: libc::RLIM64_INFINITY };
    // SAFETY: the kernel writes only `limits`, which belongs to this frame.
    let _ = unsafe { call(libc::SYS_prlimit64, [0, resource as usize, 0, &raw mut limits as usize, 0, 0]) };
    (limits.rlim_cur, limits.rlim_max)
}

/// Name of this machine.
pub(crate) fn host_name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

/// The PID namespace of this process, by the inode of its file. `None` on the host itself, and if it is unknown.
pub(crate) fn pid_namespace() -> Option<u64> {
    /// PROC_PID_INIT_INO of the kernel.
    const OF_HOST: u64 = 0xefff_fffc;
    let found = rustix::fs::stat(c"/proc/self/ns/pid").ok()?;
    (found.st_ino != OF_HOST).then_some(found.st_ino)
}
