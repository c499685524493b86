//! Holds the tree to what its pages say. The crates, their layers, what each may depend on and where unsafe code may stand are
//! read from the tables of ARCHITECTURE.md, so that the page and this check cannot part.
#![expect(clippy::unwrap_used, reason = "a test of the tree fails by panicking; the message names the file")]

mod architecture;
mod crates;
mod cycles;
mod modules;
mod pages;
mod peers;
mod phrases;
mod sources;
mod tree;
mod unsafe_code;
