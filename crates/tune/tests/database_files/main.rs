//! The audit reads configuration files of databases in the same way as their servers. This is a
//! separate test program: it starts thousands of processes, and each would keep file locks of other
//! tests open for a moment.
#![allow(missing_docs, clippy::unwrap_used, reason = "a panic is a test's verdict")]

mod mysql;
mod postgres;
mod this_host;
mod values;
