//! Why something cannot be done with a LUN.

use std::io;
use std::path::PathBuf;

use iscsi_proto::login::NameError;
use iscsi_proto::scsi::{IdentityError, UnitError};
use volume::BlockError;

use crate::limits::{LUN_INITIATORS_MAX, LUN_NAME_BYTES_MAX, LUN_NUMBER_MAX, LUN_PHYSICAL_BLOCK_BYTES_MAX, LUNS_PER_VOLUME_MAX};

/// Why something cannot be done with a LUN.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LunError {
    /// It is not there.
    #[error("there is no LUN {volume}/{name}: the volume has {}", known(.names))]
    NotFound {
        /// The volume.
        volume: String,
        /// The name asked for.
        name: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// It is there already.
    #[error("a LUN of that name exists; choose another name, or delete it with `millrace lun delete`")]
    Exists,
    /// Its number is taken.
    #[error("number {number} is taken by LUN {name}; leave --lun out to take the next that is free")]
    NumberTaken {
        /// The number.
        number: u16,
        /// Who has it.
        name: String,
    },
    /// No name.
    #[error("{0:?} is not a LUN name: use up to {LUN_NAME_BYTES_MAX} letters, digits, . _ and -, not beginning with a dot")]
    Name(String),
    /// There are as many as there may be.
    #[error("a volume has {LUNS_PER_VOLUME_MAX} LUNs at most; delete one, or use another volume")]
    TooMany,
    /// No number of a LUN.
    #[error("{0} is not a LUN number: they end at {LUN_NUMBER_MAX}")]
    Number(u16),
    /// No size of a LUN.
    #[error("{size} bytes are not a size of a LUN: it is a whole number of blocks of {block_bytes} bytes, and not 0")]
    Size {
        /// What was given.
        size: u64,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// No block size of a LUN.
    #[error("blocks of {0} bytes: a LUN has blocks of 512 or 4096 bytes")]
    BlockBytes(u32),
    /// No physical block size of a LUN.
    #[error(
        "physical blocks of {physical_block_bytes} bytes: a power of two from {block_bytes}, its block, to {LUN_PHYSICAL_BLOCK_BYTES_MAX}"
    )]
    PhysicalBlockBytes {
        /// What was given.
        physical_block_bytes: u32,
        /// Bytes of a block.
        block_bytes: u32,
    },
    /// It would lose data.
    #[error("{size} bytes are less than its {now}, and data beyond the new size would be lost; use --shrink to accept that")]
    Shrinks {
        /// The new size.
        size: u64,
        /// The size now.
        now: u64,
    },
    /// Initiators are logged in.
    #[error("{} logged in: log out there, or use --force", are_in(.0))]
    InUse(Vec<String>),
    /// Not the name of an initiator, nor of a group.
    #[error("{name:?} is neither an initiator nor a group of filer.toml{}: {reason}", listed(.groups))]
    Initiator {
        /// What was given.
        name: String,
        /// Why it is not the name of an initiator.
        reason: NameError,
        /// The groups there are.
        groups: Vec<String>,
    },
    /// More initiators than are kept.
    #[error("a LUN is mapped to {LUN_INITIATORS_MAX} names at most; use a group of filer.toml")]
    TooManyInitiators,
    /// It was not mapped to them.
    #[error("it is not mapped to {0}")]
    NotMapped(String),
    /// Its record cannot be read.
    #[error("read its record .millrace-luns/{file}: {reason}")]
    Record {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The volume refused.
    #[error("{what}: {source}")]
    Volume {
        /// What was attempted.
        what: &'static str,
        /// The volume's reason.
        source: volume::Error,
    },
    /// The device refused.
    #[error("{what}: {source}")]
    Device {
        /// What was attempted.
        what: &'static str,
        /// The device's reason.
        source: BlockError,
    },
    /// A file of the state directory.
    #[error("{what} {path}: {source}")]
    State {
        /// What was attempted.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// No unit could be made of it.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// Its names cannot be sent.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl LunError {
    pub(super) fn volume(what: &'static str) -> impl Fn(volume::Error) -> Self {
        move |source| Self::Volume { what, source }
    }

    pub(super) fn device(what: &'static str) -> impl Fn(BlockError) -> Self {
        move |source| Self::Device { what, source }
    }
}

fn known(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn are_in(names: &[String]) -> String {
    let are = if names.len() == 1 { "is" } else { "are" };
    format!("{} {are}", names.join(", "))
}
