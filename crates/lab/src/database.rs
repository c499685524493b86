//! The database for the laboratory: its programs, a temporary cluster, its counters.
//!
//! A database is a value of [`system::System`]: its names, its advice and words, and how its installed programs are found. The
//! programs ([`engine::Engine`]) create a data directory and say which processes run on it; a [`session::Session`] reads the counters.
//! A new database is a file in `database/` and its two lines here.

pub(crate) mod cluster;
#[cfg(test)]
mod dummy;
pub(crate) mod engine;
pub(crate) mod kind;
mod mariadb;
mod postgres;
pub(crate) mod session;
pub(crate) mod system;

use system::SystemRef;

/// Every database, the default first.
pub(crate) static ALL: &[SystemRef] = &[
    &postgres::system::PostgresSystem,
    &mariadb::system::MariaDbSystem,
    #[cfg(test)]
    &dummy::DummySystem,
];

/// Sessions with a server that the user named, in which records are kept.
pub(crate) use postgres::client as sql;

pub use postgres::binaries::installed_programs;
