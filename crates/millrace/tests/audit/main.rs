//! `millrace audit` and `millrace tune`: real servers, written-down hosts, a browser.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod browser;
mod command;
mod databases;
mod direct_nfs;
mod hosts;
#[path = "../../../tune/tests/tune/secret_corpus.rs"]
mod secret_corpus;
mod secrets;
mod servers;
#[path = "../support/mod.rs"]
mod support;
mod tune_apply;
mod tune_measure;
mod values;
