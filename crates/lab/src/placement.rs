//! The ground of an arm: where the files of its database stand during a run, and how the
//! database comes to them.
//!
//! On storage that is not ours everything happens inside one new directory with our mark; it
//! is removed at the end, and by the next comparison when this one is killed.

mod check;
mod export;
mod host;
mod nfs_tree;
pub(crate) mod owner;
pub(crate) mod restore;
mod spread;
pub(crate) mod workdir;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use check::{Facts, check, check_reachable};
pub(crate) use spread::space_name;

use crate::error::LabError;
use crate::placement::restore::Method;
use crate::placement::workdir::WorkDir;
use crate::plan::{Arm, Layout, Target};
use crate::sys::User;
use export::Export;
use host::Host;

/// Name of the cluster's directory on every ground.
pub(crate) const DATA: &str = "pgdata";

/// A part of a database that may lie apart from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The cluster's own files: tables, indexes, temporary files, and the log unless it lies apart.
    Data,
    /// A further share of the tables and indexes, numbered from 2.
    Share(u32),
    /// The write-ahead log.
    Log,
    /// Copies of finished log segments.
    Archive,
}

impl Part {
    /// The parts a layout keeps apart; the data comes first.
    fn of(layout: Layout) -> Vec<Self> {
        match layout {
            Layout::One => vec![Self::Data],
            Layout::Split => vec![Self::Data, Self::Log],
            Layout::SplitArchive => vec![Self::Data, Self::Log, Self::Archive],
            Layout::Filers(count) => [Self::Data].into_iter().chain((2..=count).map(Self::Share)).collect(),
        }
    }

    /// Name of its directory on the ground.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Data => "data".to_owned(),
            Self::Share(number) => format!("data-{number}"),
            Self::Log => "log".to_owned(),
            Self::Archive => "archive".to_owned(),
        }
    }

    /// Where the database sees it over Direct NFS. Must not exist on the host.
    pub(crate) fn mount_path(self) -> String {
        match self {
            Self::Data => "/millrace-db".to_owned(),
            Self::Share(number) => format!("/millrace-db-{number}"),
            Self::Log => "/millrace-log".to_owned(),
            Self::Archive => "/millrace-archive".to_owned(),
        }
    }

    /// Whether blocks of tables are read from it.
    pub(crate) fn holds_data(self) -> bool {
        matches!(self, Self::Data | Self::Share(_))
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

    /// Brings a copy of the state kept in `master` here. Durable when it returns.
    pub(crate) fn restore(
        &mut self,
        master: &Path,
        own: Method,
        user: &User,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), LabError> {
        let mounted = |part: Part| PathBuf::from(part.mount_path());
        match self {
            Self::Host(host) => {
                let root = host.root().to_owned();
                host.restore(master, &|part| root.join(part.name()), own, user, progress)
            }
            Self::Filer(host) => host.restore(master, &mounted, own, user, progress),
            Self::Export(export) => export.restore(master, &mounted, progress),
        }
    }

    /// Where the database finds a part.
    fn seen(&self, part: Part) -> PathBuf {
        match self {
            Self::Host(host) => host.root().join(part.name()),
            _ => PathBuf::from(part.mount_path()),
        }
    }

    fn parts(&self) -> &[Part] {
        match self {
            Self::Host(host) | Self::Filer(host) => host.parts(),
            Self::Export(export) => export.parts(),
        }
    }

    /// Where finished log segments are to be copied, as the database sees it; none when they are not.
    pub(crate) fn archive(&self) -> Option<PathBuf> {
        self.parts().contains(&Part::Archive).then(|| self.seen(Part::Archive))
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
        self.seen(Part::Data).join(DATA)
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
            Self::Host(host) | Self::Filer(host) => crate::host::cgroup::forget_pages(host.root()),
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
