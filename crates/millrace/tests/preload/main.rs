//! Programs on a mount of Direct NFS: files, processes, users, kills, and random programs compared
//! with local disk.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a panic is a test's verdict")]

mod away;
mod cancelled;
mod close_commits;
mod containers;
mod copies;
mod counters;
mod crowded;
mod denied;
mod descriptors;
mod direct_writes;
mod directories;
mod exec;
mod exec_print;
mod exerciser;
mod fail_closed;
mod features;
mod files;
mod forks;
mod fsx;
mod gathered;
mod give_up;
mod hints;
mod keeper;
mod kernel_aio;
mod kills;
mod lesser_servers;
mod libc;
mod mariadb;
mod nested;
mod offsets;
mod one_mount;
mod other_layout;
mod private_maps;
mod reach;
mod read_ahead;
mod rename_flags;
mod rights;
mod runtime_directory;
mod sendfile;
mod server_away;
mod set_attributes;
mod shared_maps;
mod special_files;
mod stopped;
mod stored_programs;
#[path = "../support/mod.rs"]
mod support;
mod unanswered;
mod user_namespaces;
mod users;
