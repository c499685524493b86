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
