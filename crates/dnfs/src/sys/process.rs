//! The identity of this process and its host.

/// This process.
pub(crate) fn process_id() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}

/// The effective uid of this process.
pub(crate) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective gid of this process.
pub(crate) fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Supplementary groups of the process; none when they cannot be had.
pub(crate) fn groups() -> Vec<u32> {
    rustix::process::getgroups().unwrap_or_default().into_iter().map(rustix::process::Gid::as_raw).collect()
}

/// Name of this machine.
pub(crate) fn host_name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

/// The PID namespace of this process, by the inode of its file; none on the host itself, and where that is not known.
pub(crate) fn pid_namespace() -> Option<u64> {
    /// PROC_PID_INIT_INO of the kernel.
    const OF_HOST: u64 = 0xefff_fffc;
    let found = rustix::fs::stat(c"/proc/self/ns/pid").ok()?;
    (found.st_ino != OF_HOST).then_some(found.st_ino)
}
