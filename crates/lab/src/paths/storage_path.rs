//! What every storage path offers: why it cannot be measured, its targets, its layers, and a place for the files of an arm.

use std::fmt;
use std::path::Path;

use crate::error::LabError;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::placement::target::TargetFacts;
use crate::plan::Tuning;
use crate::sys::User;

/// A path of this version.
pub(crate) type PathRef = &'static dyn StoragePath;

/// A way from the database to its files.
pub(crate) trait StoragePath: Sync {
    /// Name on the command line and in records.
    fn name(&self) -> &'static str;

    /// Name in a sentence.
    fn title(&self) -> &'static str;

    /// What a reader of its figures must know; a line below the verdict.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Why it cannot be measured with this program on this host; `None` when it can.
    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot>;

    /// Name in records of the client, on a path that can be carried by one of several.
    fn client(&self) -> Option<&'static str> {
        None
    }

    /// This path with a client of it, by the client's name in records.
    fn with_client(&self, _client: &str) -> Option<PathRef> {
        None
    }

    /// This path with the client that an arm is to be measured with, once nothing speaks against measuring it; none where it has only one.
    fn chosen(&self, _asked: &Asked<'_>) -> Option<PathRef> {
        None
    }

    /// What a guest has to start for it, as `guest/compare.sh` names it.
    fn started_by_guest(&self) -> Option<&'static str> {
        None
    }

    /// Name of the path whose figures are never held against those of this one, and why, in one clause.
    fn never_ranked_with(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Names of what lies between the database and the medium.
    fn layers(&self) -> Layers {
        Layers { file_system: None, client: self.title(), network: None, server: None }
    }

    /// Refuses a target that is not of the form this path takes.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the form it takes.
    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        Err(refused(self.name(), target, "it takes none: leave =TARGET out"))
    }

    /// Looks at a target before anything is made there.
    ///
    /// # Errors
    /// When the database could not work there: not there, not allowed, of another kind than the path says, or with something on it
    /// that must not be overwritten.
    fn examine_target(&self, _target: &str, _user: &User, _overwrite: bool) -> Result<TargetFacts, LabError> {
        Err(not_measurable(self.title()))
    }

    /// Where the files lie, in a clause; `named` storage is a target, other storage is Millrace's own.
    fn files_lie(&self, _named: bool) -> &'static str {
        "storage of the path"
    }

    /// The file system of layout `luns=N` in a sentence; none where the path does not have that layout.
    fn striped(&self, _luns: u32) -> Option<String> {
        None
    }

    /// Whether one volume can be mounted by several addresses: layout `mounts=N`.
    fn mounts_by_address(&self) -> bool {
        false
    }

    /// Which cache below the database's own may answer its reads when no medium is modelled.
    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache {
            may_answer: true,
            on_client: false,
            above_medium: false,
            filled: false,
            because: "nothing is known of the caches below",
        }
    }

    /// Makes the directories of an arm. On a target, first removes what killed comparisons of this host left there; their
    /// names come back.
    ///
    /// # Errors
    /// When something cannot be made. What was made until then is removed.
    fn prepare(&self, _order: PlacementOrder<'_>) -> Result<(Box<dyn Placement>, Vec<String>), LabError> {
        Err(not_measurable(self.title()))
    }
}

impl PartialEq for dyn StoragePath {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn StoragePath {}

impl fmt::Debug for dyn StoragePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What an arm asks of its path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// This program: the preload library lies beside it.
    pub(crate) program: &'a Path,
    /// Storage that Millrace did not make.
    pub(crate) target: Option<&'a str>,
    /// Whether a medium is to be modelled below.
    pub(crate) medium: bool,
    /// LUNs that the file system of a volume is to lie on.
    pub(crate) luns: u32,
    /// Settings of the arm.
    pub(crate) tuning: &'a Tuning,
}

/// Why a path cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhyNot {
    /// No host could: this version does not have it. The reason begins with "not built yet".
    NotBuilt(&'static str),
    /// This host or installation lacks something, and what to do about it.
    Lacks(String),
    /// Nothing is amiss: the storage has to be named, or another kernel is wanted, which a guest has.
    NotHere(&'static str),
}

impl fmt::Display for WhyNot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt(reason) | Self::NotHere(reason) => formatter.write_str(reason),
            Self::Lacks(reason) => formatter.write_str(reason),
        }
    }
}

/// Names of the layers of a path between the database and the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers {
    /// The file system on a block device, above the client, unless the layout gives another.
    pub(crate) file_system: Option<&'static str>,
    /// What the database calls.
    pub(crate) client: &'static str,
    /// What the client sends over; `None` when nothing leaves the host.
    pub(crate) network: Option<&'static str>,
    /// What answers there.
    pub(crate) server: Option<&'static str>,
}

/// What a cache below the database's buffers may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageCache {
    /// Reads may be answered from the page cache of a host of ours.
    pub(crate) may_answer: bool,
    /// It stands on the database's side of the network, so that a read it answers reaches no server.
    pub(crate) on_client: bool,
    /// A modelled medium lies below it, so that a read it answers is not delayed.
    pub(crate) above_medium: bool,
    /// The restored state is read into it before each run.
    pub(crate) filled: bool,
    /// Why, in one clause.
    pub(crate) because: &'static str,
}

/// A target that does not fit a path.
pub(super) fn refused(path: &str, target: &str, form: &str) -> LabError {
    LabError::plan(format!("use \"{target}\" as the target of path {path}"), &format!("its target is {form}"))
}

/// A path that this version can only skip.
pub(super) fn not_measurable(title: &str) -> LabError {
    LabError::Missing {
        what: format!("measure {title}: not built yet"),
        hint: "millrace doctor shows what can be measured here".to_owned(),
    }
}
