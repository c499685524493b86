//! PostgreSQL on Direct NFS: its own tools and tests, crashes, archives.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod archive;
mod away;
mod cluster;
mod containers;
mod crash;
mod sessions;
mod stopped;
#[path = "../support/mod.rs"]
mod support;
