//! The storage paths a comparison knows, and which of them this version can measure.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::LabError;

/// A way from the database to its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoragePath {
    /// Files of the host's own file system.
    Local,
    /// Direct NFS: the client inside the database's processes.
    Dnfs,
    /// A LUN over iSCSI.
    Iscsi,
    /// The kernel's NFS client.
    Knfs,
    /// A Fibre Channel block device.
    Fc,
}

impl StoragePath {
    /// Every path, in the order of a report.
    pub const ALL: [Self; 5] = [Self::Local, Self::Dnfs, Self::Iscsi, Self::Knfs, Self::Fc];

    /// Name on the command line and in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Dnfs => "dnfs",
            Self::Iscsi => "iscsi",
            Self::Knfs => "knfs",
            Self::Fc => "fc",
        }
    }

    /// Name in a sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Local => "local disk",
            Self::Dnfs => "Direct NFS",
            Self::Iscsi => "iSCSI",
            Self::Knfs => "kernel NFS",
            Self::Fc => "Fibre Channel",
        }
    }

    /// Why no version of this kind can measure the path yet; `None` when this one can.
    #[must_use]
    pub fn not_built(self) -> Option<&'static str> {
        match self {
            Self::Local | Self::Dnfs => None,
            Self::Iscsi => Some("not built yet: needs the iSCSI target and initiator of a later version"),
            Self::Knfs => {
                Some("not built yet: needs mount rights and a kernel NFS client, or the kernel guest of a later version")
            }
            Self::Fc => Some("not built yet: needs a Fibre Channel block device, or the kernel guest of a later version"),
        }
    }
}

impl fmt::Display for StoragePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for StoragePath {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Self, LabError> {
        Self::ALL.into_iter().find(|path| path.name() == name).ok_or_else(|| LabError::Plan {
            what: format!("measure a path \"{name}\""),
            hint: "paths are local, dnfs, iscsi, knfs and fc".to_owned(),
        })
    }
}

/// File name of the preload library.
pub(crate) const PRELOAD_LIBRARY: &str = "libmillrace_preload.so";

/// The preload library that belongs to `program`: named by MILLRACE_PRELOAD, beside it, or
/// in `../lib/millrace`. These are the places `millrace exec` looks at.
pub(crate) fn preload_library(program: &Path) -> Option<PathBuf> {
    if let Some(chosen) = std::env::var_os("MILLRACE_PRELOAD").map(PathBuf::from) {
        return chosen.is_file().then_some(chosen);
    }
    let directory = program.parent()?;
    let places = [directory.join(PRELOAD_LIBRARY), directory.join("../lib/millrace").join(PRELOAD_LIBRARY)];
    places.into_iter().find(|place| place.is_file())
}
