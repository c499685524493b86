//! The filer as a program: NFSv3 on the wire, exports, faults, crashes, TLS, metrics, upgrades.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::result_large_err,
    reason = "a panic is a test's verdict; results are those of the wire"
)]

mod acls;
mod batches;
mod bytes;
mod connections;
mod crashes;
mod crossing;
mod crowds;
mod descriptors;
mod exports;
mod faults;
mod fence;
mod hostile;
mod libnfs;
mod listings;
mod many_volumes;
mod medium;
mod metrics;
mod monitoring;
mod neighbours;
mod oracle;
mod parked;
mod procedures;
mod races;
mod register;
mod removal;
mod repeats;
mod resends;
mod restart;
mod served;
mod service;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod tls_peers;
mod upgrade;
mod volumes;
mod wcc;
