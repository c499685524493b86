//! The pages, the help and the table of errors: the tests run their commands as printed.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod blocks;
mod errors;
mod help;
mod host;
mod printed;
#[path = "../support/mod.rs"]
mod support;
