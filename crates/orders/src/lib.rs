//! The order-entry load: schema, loader, five transactions, measuring.
//!
//! Derived from the TPC-C specification (5.11); its figures are not comparable to published
//! TPC-C results. The load is a closed loop of terminals, each with one connection; a terminal
//! draws a warehouse for every transaction. Databases stand behind the [`database::Database`]
//! door: PostgreSQL with its relatives, MariaDB with MySQL, and Oracle where that was built in.
//!
//! This room never writes outside the schema `millrace_orders`, and never touches a schema of
//! that name that it did not fill.
#![forbid(unsafe_code)]

pub mod ack_log;
pub mod any;
pub mod checks;
mod common_sql;
pub mod conform;
pub mod cuts;
pub mod database;
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
pub mod rendezvous;
mod room;
pub mod rows;
pub mod series;
pub mod settings;
