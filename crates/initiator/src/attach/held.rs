//! A process that block I/O depends on must not wait for block I/O.

use super::error::AttachError;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::configure_io_flusher_behavior;
use std::io;

/// Locks this process in memory, makes its own allocations not wait for writeback (PR_SET_IO_FLUSHER, as iscsid does), and
/// exempts it from the OOM killer: the kernel frees scarce memory by writing to the LUN, which needs this process. Returns which
/// of these three failed, as in a container without CAP_SYS_RESOURCE. The process works all the same, but may hang if memory is
/// scarce.
#[must_use]
pub fn keep_in_memory() -> Vec<AttachError> {
    let fault = |what, needs| move |source: io::Error| AttachError::Memory { what, needs, source };
    const RESOURCE: &str = "CAP_SYS_RESOURCE";
    let locked = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE).map_err(io::Error::from);
    let flusher = configure_io_flusher_behavior(true).map_err(io::Error::from);
    let exempt = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let all = [
        locked.map_err(fault("mlockall", "CAP_IPC_LOCK")),
        flusher.map_err(fault("PR_SET_IO_FLUSHER", RESOURCE)),
        exempt.map_err(fault("oom_score_adj", RESOURCE)),
    ];
    all.into_iter().filter_map(Result::err).collect()
}
