//! What `millrace mount` promises to programs that use an export through FUSE.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod coherence;
mod errors;
mod files;
mod fstab;
mod life;
mod locks;
mod memory;
mod mounted;
mod namespaces;
mod programs;
mod server_away;
mod server_decides;
mod specials;
#[path = "../support/mod.rs"]
mod support;
mod users;
mod wal;
