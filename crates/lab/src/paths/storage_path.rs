//! The interface of a storage path: why it cannot be measured, its targets, its layers, and a place for the files of a configuration.

use std::fmt;
use std::path::Path;

use crate::error::LabError;
use crate::paths::placement::{Placement, PlacementOrder};
use crate::placement::target::TargetFacts;
use crate::plan::{Knobs, Tuning};
use crate::sys::User;

/// What to set so that more commands are in flight on a LUN.
pub(crate) const LUN_IN_FLIGHT: &str = "a LUN: its queue depth";

/// A storage path of this version.
pub(crate) type PathRef = &'static dyn StoragePath;

/// A way from the database to its files.
pub(crate) trait StoragePath: Sync {
    /// Name on the command line and in records.
    fn name(&self) -> &'static str;

    /// Name in a sentence.
    fn title(&self) -> &'static str;

    /// Information that a reader of its figures needs; a line below the verdict.
    fn note(&self) -> Option<&'static str> {
        None
    }

    /// Why it cannot be measured with this program on this host; `None` if it can.
    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot>;

    /// Name of the client in records, on a path that supports several clients.
    fn client(&self) -> Option<&'static str> {
        None
    }

    /// The client if a record does not name one: of a path with one client, or in records of versions with one.
    fn unnamed_client(&self) -> &'static str {
        "its own client"
    }

    /// This path with a given client, by the client's name in records.
    fn with_client(&self, _client: &str) -> Option<PathRef> {
        None
    }

    /// This path with the client that a configuration will use, if it can be measured; `None` if the path has only one client.
    fn chosen(&self, _asked: &Asked<'_>) -> Option<PathRef> {
        None
    }

    /// Ends what a killed comparison left on this host for a work directory of Millrace: attached disks, sessions. `program` is this program.
    ///
    /// # Errors
    /// Something cannot be ended; the directory then stays.
    fn end_left_behind(&self, _program: &Path, _directory: &Path) -> Result<(), LabError> {
        Ok(())
    }

    /// Service that a guest must start for this path, by its name in `guest/compare.sh`.
    fn started_by_guest(&self) -> Option<&'static str> {
        None
    }

    /// Whether a text without a path's name can only be a target of this path.
    fn is_target(&self, _text: &str) -> bool {
        false
    }

    /// What a reader of processor times must know: work of this path that is counted as the database's; a sentence.
    fn counted_as_database(&self) -> Option<&'static str> {
        None
    }

    /// The path against which a published report measured this one.
    fn reported_against(&self) -> Option<Reported> {
        None
    }

    /// Whether a tuning may have settings of this path, in a layer with its name.
    fn has_settings(&self) -> bool {
        false
    }

    /// Refuses settings of a tuning that this path does not have; `tuning` names it in errors.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the setting and its layer.
    fn check_settings(&self, _settings: &Knobs, _tuning: &str) -> Result<(), LabError> {
        Ok(())
    }

    /// Its recommended settings for any storage: those of the tuning `tuned`.
    fn tuned_settings(&self) -> Knobs {
        Knobs::new()
    }

    /// Facts of the audit that hold for a database on this path, whatever its host uses today.
    fn site_facts(&self) -> &'static [&'static str] {
        &[]
    }

    /// What to set so that more calls or commands of its client are in flight; `None` if nothing limits them.
    fn more_in_flight(&self) -> Option<&'static str> {
        None
    }

    /// Its setting for the number of slots that calls in flight share; `None` if it has no such setting.
    fn slots_setting(&self) -> Option<&'static str> {
        None
    }

    /// What to set so that its client has more connections; `None` if it has none, or always enough.
    fn more_connections(&self) -> Option<&'static str> {
        None
    }

    /// Name of a path whose figures are never compared with this path's, and the reason in one clause.
    fn never_ranked_with(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Names of the layers between the database and the medium.
    fn layers(&self) -> Layers {
        Layers { file_system: None, client: self.title(), network: None, server: None }
    }

    /// Refuses a target that does not have the form that this path accepts.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the accepted form.
    fn accept_target(&self, target: &str) -> Result<(), LabError> {
        Err(LabError::plan(
            format!("use \"{target}\" as the target of path {}: it takes no target", self.name()),
            "leave =TARGET out",
        ))
    }

    /// Whether its target is a block device, whose contents a comparison overwrites.
    fn takes_device(&self) -> bool {
        false
    }

    /// Checks a target before anything is created on it.
    ///
    /// # Errors
    /// The database could not use the target: it does not exist, is not permitted, is of a kind that the path does not support, or
    /// contains data that must not be overwritten.
    fn examine_target(&self, _target: &str, _user: &User, _overwrite: bool) -> Result<TargetFacts, LabError> {
        Err(not_measurable(self.title()))
    }

    /// Location of the files, in a clause; `named` storage is a target, other storage is Millrace's own.
    fn files_lie(&self, _named: bool) -> &'static str {
        "storage of the path"
    }

    /// The file system of layout `luns=N` in a sentence; `None` if the path does not support that layout.
    fn striped(&self, _luns: u32) -> Option<String> {
        None
    }

    /// Whether one volume can be mounted by several addresses (layout `mounts=N`).
    fn mounts_by_address(&self) -> bool {
        false
    }

    /// The cache below the database's own buffers that may serve its reads if no medium is modelled.
    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache {
            may_answer: true,
            on_client: false,
            above_medium: false,
            filled: false,
            because: "nothing is known of the caches below",
        }
    }

    /// Creates the directories of a configuration. On a target, first removes what killed comparisons of this host left there, and
    /// returns the names of what it removed.
    ///
    /// # Errors
    /// Something cannot be created. What was created before is removed.
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

/// Requirements of a configuration for its path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Path of this program: the preload library is in the same directory.
    pub(crate) program: &'a Path,
    /// Existing storage that Millrace did not create.
    pub(crate) target: Option<&'a str>,
    /// Whether a medium must be modelled below.
    pub(crate) medium: bool,
    /// Number of LUNs for the file system of a volume.
    pub(crate) luns: u32,
    /// Settings of the configuration.
    pub(crate) tuning: &'a Tuning,
}

/// Why a path cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhyNot {
    /// This version does not implement it. The reason begins with "not built yet".
    NotBuilt(&'static str),
    /// This host or installation lacks something; the text says what to do about it.
    Lacks(String),
    /// The storage must be named, or the path needs another kernel, which a guest has.
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

/// A ratio of two paths in a published report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported {
    /// Name of the other path.
    pub(crate) against: &'static str,
    /// Orders divided by those of the other path.
    pub(crate) orders_ratio: &'static str,
    /// Where it is reported.
    pub(crate) source: &'static str,
}

/// Names of the layers of a path between the database and the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers {
    /// The file system on a block device, above the client, unless the layout defines another.
    pub(crate) file_system: Option<&'static str>,
    /// The interface that the database calls.
    pub(crate) client: &'static str,
    /// The network below the client; `None` if no data leave the host.
    pub(crate) network: Option<&'static str>,
    /// The server at the other end.
    pub(crate) server: Option<&'static str>,
}

/// Properties of a cache below the database's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageCache {
    /// Whether the page cache of a host under Millrace's control may serve reads.
    pub(crate) may_answer: bool,
    /// Whether it is on the database's side of the network, so that a read it serves reaches no server.
    pub(crate) on_client: bool,
    /// Whether a modelled medium is below it, so that a read it serves is not delayed.
    pub(crate) above_medium: bool,
    /// Whether the restored state is read into it before each run.
    pub(crate) filled: bool,
    /// Reason, in one clause.
    pub(crate) because: &'static str,
}

/// The error for a target that does not fit a path. `form` is what the path takes; `example` is a target of that form.
pub(super) fn refused(path: &str, target: &str, form: &str, example: &str) -> LabError {
    LabError::plan(
        format!("use \"{target}\" as the target of path {path}: it is not {form}"),
        &format!("write it as in --path {path}={example}"),
    )
}

/// The error for a path that this version can only skip.
pub(super) fn not_measurable(title: &str) -> LabError {
    LabError::Missing {
        what: format!("measure {title}: not built yet"),
        hint: "millrace doctor shows what can be measured here".to_owned(),
    }
}
