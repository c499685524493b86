//! Checks that the tree is as its pages describe it. The crates, their layers, their allowed
//! dependencies and the places of unsafe code are read from the tables of ARCHITECTURE.md, so that
//! the page and this check cannot differ.
#![expect(clippy::unwrap_used, reason = "a test of the tree fails by panicking; the message names the file")]

mod architecture;
mod crates;
mod cycles;
mod errors;
mod modules;
mod names;
mod pages;
mod peers;
mod phrases;
mod sources;
mod tree;
mod unsafe_code;
