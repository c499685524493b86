//! PostgreSQL as the laboratory needs it: its programs, a throw-away cluster, its counters.

pub(crate) mod archive;
pub(crate) mod binaries;
pub(crate) mod checkpoints;
pub(crate) mod cluster;
pub(crate) mod counters;
pub(crate) mod tablespaces;
