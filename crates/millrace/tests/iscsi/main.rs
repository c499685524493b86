//! The target and the initiator as programs: conformance, crashes, LUNs as block devices, databases on them.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod attach;
mod attach_striped;
mod cache_oracle;
mod conformance;
mod crash;
mod database;
mod hostile;
mod hung_reads;
mod initiator;
mod luns;
mod noisy;
mod parked;
mod peers;
mod restart;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
mod volume;
