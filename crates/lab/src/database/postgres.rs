//! PostgreSQL as the laboratory needs it: its programs, its counters, its archive and tablespaces.

pub(crate) mod archive;
pub(crate) mod binaries;
pub(crate) mod checkpoints;
pub(crate) mod counters;
pub(crate) mod tablespaces;
