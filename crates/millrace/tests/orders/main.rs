//! The order-entry load on real databases.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod command;
mod connections;
mod interrupted;
mod like;
mod mariadb;
mod models;
mod modes;
mod nodes;
#[path = "../support/mod.rs"]
mod support;
mod together;
mod wire;
