//! The crash oracle: clients that know what they were promised, and compare it with what they find.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic is a test's verdict"
)]

pub mod lane;
pub mod promises;
