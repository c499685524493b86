//! System calls behind safe functions: the only unsafe code of this crate.

pub(crate) mod files;
pub(crate) mod futex;
pub(crate) mod liveness_lock;
pub(crate) mod raw;
pub(crate) mod shm;
pub(crate) mod socket;
