//! Both sides of the protocol against each other, against golden bytes and libiscsi, and the SCSI commands of a LUN.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

#[path = "../every/mod.rs"]
mod every;
mod exchange;
mod golden;
mod initiator_login;
mod libiscsi;
mod pair;
mod scsi_commands;
mod scsi_durability;
mod scsi_model;
mod scsi_reservations;
mod scsi_support;
mod target_login;
mod target_memory;
mod target_replies;
mod target_requests;
mod target_sessions;
mod target_tasks;
mod wire;
