//! The database for the laboratory: its programs, a temporary cluster, its counters.

pub(crate) mod cluster;
pub(crate) mod engine;
pub(crate) mod engines;
pub(crate) mod kind;
mod mariadb;
pub(crate) mod postgres;
pub(crate) mod session;
