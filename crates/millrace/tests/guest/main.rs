//! `millrace guest`, and what the clients of a stock kernel find in the filer and the target: NFS,
//! open-iscsi with dm-multipath, and Fibre Channel with both ends in the guest. Each test boots a
//! real guest.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod booted;
mod compare;
mod fibre_channel;
mod iscsi;
mod kernel_attach;
mod life;
mod nfs;
#[path = "../support/mod.rs"]
mod support;
