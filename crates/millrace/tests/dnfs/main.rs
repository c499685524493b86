//! The client library in this process against a filer: mounts, retention, limits, several hosts.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

#[macro_use]
mod mounted;

mod appends;
mod attributes;
mod calls;
mod client;
mod contention;
mod hosts;
mod limits;
mod losses;
mod mount;
mod names;
mod retention;
mod shared_commits;
mod slots;
#[path = "../support/mod.rs"]
mod support;
