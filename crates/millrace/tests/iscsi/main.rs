//! The target and the initiator as programs: conformance, crashes, LUNs as block devices.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod attach;
mod conformance;
mod crash;
mod hostile;
mod initiator;
mod luns;
mod restart;
#[path = "../support/mod.rs"]
mod support;
mod volume;
