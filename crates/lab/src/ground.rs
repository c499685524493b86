//! The ground of an arm: where the files of its database stand during a run, and how the
//! database comes to them.
//!
//! On storage that is not ours everything happens inside one new directory with our mark; it
//! is removed at the end, and by the next comparison when this one is killed.

mod check;
mod export;
mod host;
mod nfs_tree;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use check::{Facts, check, check_reachable};

use crate::error::LabError;
use crate::plan::{Arm, Layout, Target};
use crate::restore::Method;
use crate::sys::User;
use crate::workdir::WorkDir;
use export::Export;
use host::Host;

/// Name of the cluster's directory on every ground.
pub(crate) const DATA: &str = "pgdata";

/// Name of the log's directory within a cluster.
const LOG: &str = "pg_wal";

/// A part of a database that may lie apart from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Tables, indexes, temporary files, and the log unless it lies apart.
    Data,
    /// The write-ahead log.
    Log,
}

impl Part {
    /// The parts a layout keeps apart.
    fn of(layout: Layout) -> &'static [Self] {
        if layout.log_apart() { &[Self::Data, Self::Log] } else { &[Self::Data] }
    }

    /// Name of its directory on the ground.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Log => "log",
        }
    }

    /// Where the database sees it over Direct NFS. Must not exist on the host.
    pub(crate) fn mount_path(self) -> &'static str {
        match self {
            Self::Data => "/millrace-db",
            Self::Log => "/millrace-log",
        }
    }
}

/// One volume that the database reaches over Direct NFS.
#[derive(Debug, Clone)]
pub(crate) struct Mounting {
    pub(crate) part: Part,
    /// The export with the options of the arm's tuning.
    pub(crate) url: String,
}

impl Mounting {
    /// The value of `millrace exec --mount`.
    pub(crate) fn argument(&self) -> OsString {
        format!("{}={}", self.part.mount_path(), self.url).into()
    }
}

/// Where an arm's database stands.
pub(crate) enum Ground {
    /// In directories of this host, ours or below a target.
    Host(Host),
    /// In directories of this host that filers of ours serve.
    Filer(Host),
    /// On an export that was there before.
    Export(Box<Export>),
}

impl Ground {
    /// Makes the directories of an arm. On a target, first removes what killed comparisons of
    /// this host left there; these come back as text.
    pub(crate) fn make(arm: &Arm, work: &WorkDir, user: &User) -> Result<(Self, Vec<String>), LabError> {
        let parts = Part::of(arm.layout);
        match &arm.path.target {
            Some(Target::Nfs(url)) => {
                let (export, removed) = Export::make(url, parts, user)?;
                Ok((Self::Export(Box::new(export)), removed))
            }
            Some(Target::Directory(path)) => {
                let (host, removed) = Host::below(path, parts, user)?;
                Ok((Self::Host(host), removed))
            }
            _ if arm.path.kind == crate::paths::StoragePath::Dnfs => {
                Ok((Self::Filer(Host::within(&work.path("export"), parts, user)?), Vec::new()))
            }
            _ => Ok((Self::Host(Host::within(&work.path("local"), parts, user)?), Vec::new())),
        }
    }

    /// How the loaded state comes here.
    pub(crate) fn method(&self, own: Method) -> &'static str {
        match self {
            Self::Export(_) => "nfs",
            Self::Host(host) | Self::Filer(host) => host.method(own).name(),
        }
    }

    /// Brings a copy of the cluster `master` here. Durable when it returns.
    pub(crate) fn restore(
        &mut self,
        master: &Path,
        own: Method,
        user: &User,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), LabError> {
        let over_nfs = Path::new(Part::Log.mount_path()).join(LOG);
        match self {
            Self::Host(host) => {
                let log = host.root().join(Part::Log.name()).join(LOG);
                host.restore(master, &log, own, user, progress)
            }
            Self::Filer(host) => host.restore(master, &over_nfs, own, user, progress),
            Self::Export(export) => export.restore(master, &over_nfs, progress),
        }
    }

    /// Directories that filers of ours have to serve, with a name for each.
    pub(crate) fn to_serve(&self) -> Vec<(Part, PathBuf)> {
        match self {
            Self::Filer(host) => host.parts().iter().map(|part| (*part, host.root().join(part.name()))).collect(),
            _ => Vec::new(),
        }
    }

    /// The volumes of an export that is not ours, as this run's copy lies on it.
    pub(crate) fn exports(&self) -> Vec<(Part, String)> {
        match self {
            Self::Export(export) => export.urls(),
            _ => Vec::new(),
        }
    }

    /// The cluster's directory as the database sees it.
    pub(crate) fn data(&self) -> PathBuf {
        match self {
            Self::Host(host) => host.root().join(Part::Data.name()).join(DATA),
            _ => PathBuf::from(Part::Data.mount_path()).join(DATA),
        }
    }

    /// Directories of this host with files of the database, one for each volume, when it comes to them through the
    /// kernel.
    pub(crate) fn host_directories(&self) -> Vec<PathBuf> {
        match self {
            Self::Host(host) => host.parts().iter().map(|part| host.root().join(part.name())).collect(),
            _ => Vec::new(),
        }
    }

    /// Drops the copy from this host's page cache, as far as it is there.
    pub(crate) fn forget_pages(&self) -> Result<(), LabError> {
        match self {
            Self::Host(host) | Self::Filer(host) => crate::cgroup::forget_pages(host.root()),
            Self::Export(_) => Ok(()),
        }
    }

    /// Removes the copy after a run.
    pub(crate) fn clear(&mut self) -> Result<(), LabError> {
        match self {
            Self::Host(host) | Self::Filer(host) => host.clear(),
            Self::Export(export) => export.clear(),
        }
    }

    /// Removes everything that was made here and says what could not be removed.
    pub(crate) fn remove(self) -> Result<(), LabError> {
        match self {
            Self::Host(host) | Self::Filer(host) => host.remove(),
            Self::Export(export) => export.remove(),
        }
    }
}
