//! The database as the laboratory needs it: its programs, a throw-away cluster, its counters.

pub(crate) mod cluster;
pub(crate) mod postgres;
