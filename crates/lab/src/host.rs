//! This host: child processes, control groups, signals, the kernel's counters, facts for the record.

pub(crate) mod block_device;
pub(crate) mod cgroup;
pub(crate) mod changed_settings;
pub(crate) mod environment;
pub(crate) mod interrupt;
pub(crate) mod keep_awake;
pub(crate) mod kernel_mount;
pub(crate) mod listener;
pub(crate) mod mountstats;
pub(crate) mod page_cache;
pub(crate) mod process;
pub(crate) mod procfs;
pub(crate) mod rpc_slots;
pub(crate) mod serving;
