//! Files of a volume in a store, durability, loss of unsynced data.
//!
//! A [`Volume`] serves one directory as it is. Objects are known by identity (inode and generation), so
//! a [`Handle`] outlives renames and restarts; changes of names and attributes are durable before they
//! return; unstable writes become durable by [`Volume::commit`], and a flush that fails is never hidden:
//! the [write verifier](Volume::verifier) moves and the volume promises nothing more. Calls block; there
//! are no threads but the search of an unprivileged volume.
//!
//! It does not check access rights (the filer does), knows no protocol, and writes no format of its own
//! into the served directory. Reasons: `docs/design/001-volume.md`.
#![deny(unsafe_code)]

mod attrs;
mod create;
mod data;
mod descriptors;
mod dice;
mod direct;
mod durable;
mod error;
pub mod faults;
mod flush;
mod handle;
mod identity;
mod limits;
mod loss;
pub mod medium;
mod moves;
mod names;
mod node;
mod options;
mod quota;
mod search;
mod state;
#[allow(unsafe_code, reason = "host calls on descriptors, kernel file handles, listings")]
mod sys;
mod times;
mod traffic;
mod types;
mod volume;

pub use durable::{Unsettled, settle};
pub use error::{Error, OpenError};
pub use handle::{Handle, handle_tag};
pub use identity::Identity;
pub use loss::copy::{CopyError, CopyReport};
pub use node::Node;
pub use options::{CacheMode, Counters, Durability, Options, ReadAhead, UnknownOption};
pub use quota::QuotaUse;
pub use types::{Attr, CreateHow, CutReport, DirEntry, FsStat, Kind, NodeKind, Owner, SetAttr, SetTime, Stability, Time};
pub use volume::{Config, LossConfig, Volume};
