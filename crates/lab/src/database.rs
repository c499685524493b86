//! The database as the laboratory needs it: its programs, a throw-away cluster, its counters.

pub(crate) mod cluster;
pub(crate) mod engine;
pub(crate) mod kind;
mod mariadb;
pub(crate) mod postgres;
pub(crate) mod session;
