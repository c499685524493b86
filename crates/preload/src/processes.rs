//! New processes: a child of vfork shares our memory, so it is a child of fork; posix_spawn opens files inside libc.

use crate::cwd;
use crate::hook::hooks;
use crate::outcome::{Out, kept};
use crate::paths::{self, Target};
use libc::{c_char, c_int, mode_t, pid_t, posix_spawn_file_actions_t};

hooks! {
    /// fork(2): libc's own; here for vfork.
    fn fork() -> pid_t { Err(Out::Pass) }
    /// vfork(2): what the child does before exec would be done to our table as well.
    fn vfork() -> pid_t { kept(fork::real()) }
    /// posix_spawn_file_actions_addopen(3): returns an errno. libc would open the path in the child, unseen.
    fn posix_spawn_file_actions_addopen(actions: *mut posix_spawn_file_actions_t, fd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        if !crate::mounts::any() { return Err(Out::Pass) }
        match paths::target_or_linked(libc::AT_FDCWD, path)? {
            Target::At(..) => Ok(libc::EOPNOTSUPP),
            Target::Local(_) => Err(Out::Pass),
        }
    }
    /// posix_spawn_file_actions_addchdir_np(3): the directory of the mirror.
    fn posix_spawn_file_actions_addchdir_np(actions: *mut posix_spawn_file_actions_t, path: *const c_char) -> c_int {
        if !crate::mounts::any() { return Err(Out::Pass) }
        match paths::target(libc::AT_FDCWD, path, true)? {
            Target::At(_, mount, entry) if entry.object.is_some() => {
                Ok(real(actions, cwd::make(mount, &entry.path)?.as_ptr()))
            }
            Target::At(..) => Ok(libc::ENOENT),
            Target::Local(_) => Err(Out::Pass),
        }
    }
}
