//! The order-entry load on real databases.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod command;
mod connections;
mod interrupted;
mod like;
mod mariadb;
mod mariadb_accounts;
mod models;
mod modes;
mod nodes;
mod pooler;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod wire;
