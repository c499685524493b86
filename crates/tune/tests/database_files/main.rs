//! What the audit reads in configuration files of databases, beside what their servers read in them. A program of its own: it starts
//! thousands of processes, each of which would hold the locks of other tests for a moment.
#![allow(missing_docs, clippy::unwrap_used, reason = "a panic is a test's verdict")]

mod mysql;
mod postgres;
mod this_host;
mod values;
