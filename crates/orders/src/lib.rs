//! The order-entry load: schema, loader, five transactions, driver, consistency checks.
//!
//! Derived from the TPC-C specification (5.11); its figures are not comparable to published
//! TPC-C results. Terminals send transactions in a closed loop, paced by keying and think times, or at an open
//! rate ([`model`]); the terminals of a thread share its database sessions ([`driver`]). A terminal draws any of the
//! warehouses for each transaction, or keeps its home warehouse. Several drivers on several hosts can carry out
//! one run together ([`coordination`]). All databases implement the [`database::Database`] interface: PostgreSQL and engines
//! that use its protocol, one schema partitioned over several PostgreSQL servers, MariaDB and MySQL, and Oracle if
//! the build includes it.
//!
//! The load writes: the schema `millrace_orders` of the database under load, and never one of that name that it did not fill;
//! the schema `millrace_results` of the results database if drivers are coordinated; with several PostgreSQL servers,
//! the foreign servers `millrace_node_N` and the extension postgres_fdw on the first one; and the log of acknowledged
//! orders if one is requested. `like` only reads.
#![forbid(unsafe_code)]

pub mod ack_log;
pub mod any;
pub mod checks;
mod common_sql;
pub mod conditions;
pub mod conform;
pub mod coordination;
pub mod database;
mod disk_space;
pub mod driver;
pub mod error;
pub mod inputs;
pub mod isolation;
pub mod like;
pub mod limits;
pub mod loader;
pub mod measure;
pub mod mix;
pub mod model;
pub mod money;
pub mod mysql;
pub mod open;
#[cfg(feature = "oracle")]
pub mod oracle;
pub mod pacing;
pub mod postgres;
pub mod random;
pub mod rows;
mod schema;
pub mod series;
pub mod settings;
pub mod snapshots;
pub mod tables;
mod unsafe_setting;
