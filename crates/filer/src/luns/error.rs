//! Errors of LUN operations.

use std::io;
use std::path::PathBuf;

use iscsi_proto::login::NameError;
use iscsi_proto::scsi::{IdentityError, UnitError};
use results::sizes::{about_text, size_text};
use volume::{BlockError, QuotaUse};

use crate::limits::{LUN_INITIATORS_MAX, LUN_NAME_BYTES_MAX, LUN_NUMBER_MAX, LUN_PHYSICAL_BLOCK_BYTES_MAX, LUNS_PER_VOLUME_MAX};

/// Why an operation on a LUN failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LunError {
    /// The LUN does not exist.
    #[error("there is no LUN {volume}/{name}: the volume has {}", known(.names))]
    NotFound {
        /// The volume.
        volume: String,
        /// The requested name.
        name: String,
        /// The names of the volume's LUNs.
        names: Vec<String>,
    },
    /// A LUN with this name exists.
    #[error("a LUN of that name exists; choose another name, or delete it with `millrace lun delete`")]
    Exists,
    /// Another LUN has the number.
    #[error("number {number} is taken by LUN {name}; leave --lun out to take the next that is free")]
    NumberTaken {
        /// The number.
        number: u16,
        /// The name of the LUN that has it.
        name: String,
    },
    /// The name is not valid.
    #[error("{0:?} is not a LUN name: use up to {LUN_NAME_BYTES_MAX} letters, digits, . _ and -, not beginning with a dot")]
    Name(String),
    /// The volume has the largest number of LUNs.
    #[error("a volume has {LUNS_PER_VOLUME_MAX} LUNs at most; delete one, or use another volume")]
    TooMany,
    /// The number is not valid.
    #[error("{0} is not a LUN number: they end at {LUN_NUMBER_MAX}")]
    Number(u16),
    /// The size is not valid.
    #[error("a LUN cannot have {}: its size is a whole number of blocks of {block_bytes} bytes, 1 or more", size_text(*.size))]
    Size {
        /// The requested size, in bytes.
        size: u64,
        /// Block size of the LUN, in bytes.
        block_bytes: u32,
    },
    /// The block size is not valid.
    #[error("blocks of {0} bytes: a LUN has blocks of 512 or 4096 bytes")]
    BlockBytes(u32),
    /// The physical block size is not valid.
    #[error(
        "physical blocks of {physical_block_bytes} bytes: the number must be a power of two from {block_bytes} (the logical block) to {LUN_PHYSICAL_BLOCK_BYTES_MAX}"
    )]
    PhysicalBlockBytes {
        /// The requested physical block size, in bytes.
        physical_block_bytes: u32,
        /// Block size of the LUN, in bytes.
        block_bytes: u32,
    },
    /// The smaller size would lose data.
    #[error(
        "{} is less than its {}, and data beyond the new size would be lost; use --shrink to accept that",
        size_text(*.size),
        size_text(*.now)
    )]
    Shrinks {
        /// The requested size, in bytes.
        size: u64,
        /// The current size, in bytes.
        now: u64,
    },
    /// The volume has no space for it.
    #[error("{}", no_space(.volume, *.wanted, .quota.as_ref(), *.available))]
    NoSpace {
        /// The volume.
        volume: String,
        /// The size by which the LUN would grow, in bytes.
        wanted: u64,
        /// The quota of the volume.
        quota: Option<QuotaUse>,
        /// What is free on the file system of the volume, in bytes, if the host reports it.
        available: Option<u64>,
    },
    /// The host has no files of this size.
    #[error("the file system of volume {volume} cannot hold a file of {}; choose a smaller size", size_text(*.size))]
    TooLarge {
        /// The volume.
        volume: String,
        /// The requested size, in bytes.
        size: u64,
    },
    /// Initiators are logged in. Their names.
    #[error("{} logged in: log out there, or use --force", are_in(.0))]
    InUse(Vec<String>),
    /// The name is neither that of an initiator nor that of a group.
    #[error("{name:?} is neither an initiator nor a group of filer.toml{}: {reason}", listed(.groups))]
    Initiator {
        /// The requested name.
        name: String,
        /// Why it is not the name of an initiator.
        reason: NameError,
        /// The groups of the configuration.
        groups: Vec<String>,
    },
    /// The LUN would be mapped to too many names.
    #[error("a LUN is mapped to {LUN_INITIATORS_MAX} names at most; use a group of filer.toml")]
    TooManyInitiators,
    /// The LUN is not mapped to these names.
    #[error("it is not mapped to {0}; `millrace lun list --json` shows what each LUN is mapped to")]
    NotMapped(String),
    /// The LUN's record cannot be read.
    #[error("read its record .millrace-luns/{file}: {reason}")]
    Record {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The volume returned an error.
    #[error("{what}: {source}")]
    Volume {
        /// What was attempted.
        what: &'static str,
        /// The volume's reason.
        source: volume::Error,
    },
    /// The block device returned an error.
    #[error("{what}: {source}")]
    Device {
        /// What was attempted.
        what: &'static str,
        /// The device's reason.
        source: BlockError,
    },
    /// A file of the state directory cannot be read or written.
    #[error("{what} {path}: {source}")]
    State {
        /// What was attempted.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The logical unit could not be created.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The LUN's names cannot be encoded.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl LunError {
    /// The reason of the volume, if that is what refused.
    pub(super) const fn of_volume(&self) -> Option<volume::Error> {
        match self {
            Self::Volume { source, .. } | Self::Device { source: BlockError::Volume(source), .. } => Some(*source),
            _ => None,
        }
    }

    pub(super) fn volume(what: &'static str) -> impl Fn(volume::Error) -> Self {
        move |source| Self::Volume { what, source }
    }

    pub(super) fn device(what: &'static str) -> impl Fn(BlockError) -> Self {
        move |source| Self::Device { what, source }
    }
}

fn known(names: &[String]) -> String {
    if names.is_empty() { "no LUN".into() } else { names.join(", ") }
}

fn no_space(volume: &str, wanted: u64, quota: Option<&QuotaUse>, available: Option<u64>) -> String {
    let wanted = size_text(wanted);
    let free = |quota: &QuotaUse| quota.limit_bytes.saturating_sub(quota.used_bytes);
    match (quota, available) {
        (Some(quota), available) if available.is_none_or(|available| free(quota) <= available) => format!(
            "volume {volume} has a quota of {}, of which {} is free: less than the {wanted} needed; choose a smaller size, delete files \
             or LUNs, or enlarge the quota with `millrace volume resize {volume} SIZE`",
            size_text(quota.limit_bytes),
            about_text(free(quota)),
        ),
        (_, Some(available)) => format!(
            "the file system of volume {volume} has {} free: less than the {wanted} needed; choose a smaller size, or free space there",
            about_text(available)
        ),
        (_, None) => format!("volume {volume} has no space for {wanted}; choose a smaller size, or free space there"),
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn are_in(names: &[String]) -> String {
    let are = if names.len() == 1 { "is" } else { "are" };
    format!("{} {are}", names.join(", "))
}
