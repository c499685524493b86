//! Files and block devices of a volume in a store, durability, loss of unsynced data.
//!
//! A [`Volume`] serves one directory as it is. It identifies an object by inode and generation, so a [`Handle`] stays
//! valid over renames and restarts. Changes of names and attributes are durable when the call returns. Unstable writes
//! become durable by [`Volume::commit`]. A failed flush is never hidden: the [write verifier](Volume::verifier) changes,
//! and the volume promises no durability any more. A file can be opened as a [`BlockDevice`] under the same rules.
//! [`Volume::quiesce`] stops all changes for a while. Calls block. The crate starts no thread except the tree search of
//! a volume that cannot open objects by handle.
//!
//! It does not check access rights (the filer does), implements no protocol, and stores no format of its own
//! in the served directory. Reasons: `docs/design/001-volume.md`.
#![deny(unsafe_code)]

mod acl;
mod attrs;
mod block_device;
mod changes;
mod counters;
mod create;
mod creator;
mod crossed;
mod descriptor;
mod descriptor_budget;
mod descriptor_cache;
mod devices_directory;
mod direct_io;
mod directory_lock;
mod error;
pub mod faults;
mod flush;
mod group_commit;
mod handle;
mod identity;
mod in_flight;
mod limits;
mod lookup;
mod loss;
mod loss_epoch;
mod make;
pub mod medium;
mod metadata_log;
mod mount_points;
mod mounted;
mod mounts;
mod node;
mod node_table;
mod open;
mod options;
mod quiesce;
mod quota;
mod read;
mod record;
mod remove;
mod rename;
mod resolve;
mod size_limit;
mod state;
mod store;
mod subject;
#[allow(unsafe_code, reason = "host calls on descriptors, kernel file handles, listings")]
mod sys;
mod times;
mod tree_copy;
mod tree_search;
mod types;
mod volume;
mod wcc;
mod wcc_change;
mod write;
mod write_turns;
mod zero_range;

pub use acl::Acl;
pub use block_device::{BlockDevice, BlockError, Durable};
pub use counters::Counters;
pub use creator::{Creator, Judge};
pub use crossed::{Crossing, Inside, file_systems_inside};
pub use descriptor_budget::{close_spare_descriptors, opening};
pub use error::{Error, OpenError};
pub use handle::{Handle, handle_tag};
pub use identity::Identity;
pub use loss::LossConfig;
pub use loss::cut_copy::CopyReport;
pub use mount_points::MountPoint;
pub use mounts::{Mounts, Tree};
pub use node::Node;
pub use options::{CacheMode, Durability, Options, ReadAhead, UnknownOption};
pub use quiesce::{QuiesceError, Quiesced};
pub use quota::QuotaUse;
pub use record::{BootId, FIRST_LOSS_EPOCH, NotABootId};
pub use subject::Subject;
pub use tree_copy::CopyError;
pub use types::{Attr, CreateHow, CutReport, DirEntry, FsStat, Kind, NodeKind, Owner, SetAttr, SetTime, Stability, Time};
pub use volume::{Config, Volume, keeping_set_id};
pub use wcc::Wcc;
pub use write::{DeferredFlush, flush_deferred};
