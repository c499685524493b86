//! Changes of the process' users and groups. Open files keep their former credentials, over a later exec too.

use crate::credentials;
use crate::hook::hooks;
use crate::mounts;
use crate::outcome::{Out, kept};
use crate::table::{self, Found};
use libc::{c_char, c_int, gid_t, size_t, uid_t};

fn mark_all() {
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else { return };
    for fd in descriptors.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if !dnfs::is_internal_fd(fd)
            && let Ok(Found::File(open)) = table::find(fd)
        {
            credentials::mark(open.fd, open.mount);
        }
    }
}

/// Changes credentials by libc's function. Before that, marks the open files with the former credentials.
pub(crate) fn change(real: impl FnOnce() -> c_int) -> Result<c_int, Out> {
    if !mounts::any() {
        return Err(Out::Pass);
    }
    let _ = credentials::current(); // stores the former ones
    mark_all();
    let answer = kept(real())?;
    credentials::changed();
    Ok(answer)
}

hooks! {
    /// setuid(2).
    fn setuid(user: uid_t) -> c_int { change(|| real(user)) }
    /// seteuid(3).
    fn seteuid(user: uid_t) -> c_int { change(|| real(user)) }
    /// setreuid(2).
    fn setreuid(user: uid_t, effective: uid_t) -> c_int { change(|| real(user, effective)) }
    /// setresuid(2).
    fn setresuid(user: uid_t, effective: uid_t, saved: uid_t) -> c_int { change(|| real(user, effective, saved)) }
    /// setgid(2).
    fn setgid(group: gid_t) -> c_int { change(|| real(group)) }
    /// setegid(3).
    fn setegid(group: gid_t) -> c_int { change(|| real(group)) }
    /// setregid(2).
    fn setregid(group: gid_t, effective: gid_t) -> c_int { change(|| real(group, effective)) }
    /// setresgid(2).
    fn setresgid(group: gid_t, effective: gid_t, saved: gid_t) -> c_int { change(|| real(group, effective, saved)) }
    /// setgroups(2).
    fn setgroups(count: size_t, groups: *const gid_t) -> c_int { change(|| real(count, groups)) }
    /// initgroups(3).
    fn initgroups(name: *const c_char, group: gid_t) -> c_int { change(|| real(name, group)) }
}
