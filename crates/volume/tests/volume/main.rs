//! Volumes on real directories: what is stable, what a power cut takes, names, owners, quotas, LUN images.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "a panic is a test's verdict")]

mod block_device;
mod btrfs;
mod cache_modes;
mod cold_reads;
mod common;
mod devices_directory;
mod durability;
mod faults;
mod handles;
#[path = "common/model.rs"]
mod model;
mod names;
mod ownership;
mod power_cut;
mod quota;
mod restart;
mod scale;
mod stores;
mod unprivileged;
