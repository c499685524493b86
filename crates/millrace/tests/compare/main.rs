//! `millrace compare`, `millrace load` and their reports, with real databases.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod claims;
mod command;
mod devices;
mod filer_lost;
mod history;
mod install;
mod iscsi;
mod kernel_settings;
mod layouts;
mod mariadb;
mod regimes;
mod report;
mod search;
#[path = "../support/mod.rs"]
mod support;
mod targets;
