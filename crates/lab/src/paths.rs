//! Storage paths: the ways from a database to its files, all behind one interface.
//!
//! A path is a value of [`StoragePath`]. It says why it cannot be measured here, which targets it accepts, and puts the files
//! of an arm in place ([`Placement`]); a placement starts whatever serves the files of one run ([`Storage`]). Everything else
//! in the laboratory, doctor and the reports included, goes through these three and matches on no path's name.
//!
//! A new path is a file in `paths/` and its line in [`ALL`]. One that can only be skipped implements the first three
//! methods of [`StoragePath`]; what it leaves out refuses, it never falls back to another path.

pub(crate) mod dnfs;
pub(crate) mod exec;
mod fc;
mod filer;
mod iscsi;
mod kernel_files;
mod knfs;
pub(crate) mod local;
pub(crate) mod medium;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use ::dnfs::activity::Activity;
use results::compare::{ProcedureCount, ProofSource};

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::measure::kernel_counters::Interfaces;

use crate::placement::part::{DATA, Part};
use crate::placement::restore::Method;
use crate::placement::target::TargetFacts;
use crate::placement::workdir::WorkDir;
use crate::plan::Tuning;
use crate::sys::User;

/// Every path, in the order of a report.
pub(crate) const ALL: [PathRef; 5] = [&local::Local, &dnfs::Dnfs, &iscsi::Iscsi, &knfs::Knfs, &fc::Fc];

/// One of [`ALL`].
pub(crate) type PathRef = &'static dyn StoragePath;

/// The path of this name.
pub(crate) fn find(name: &str) -> Option<PathRef> {
    ALL.into_iter().find(|path| path.name() == name)
}

/// A way from the database to its files.
pub(crate) trait StoragePath: Sync {
    /// Name on the command line and in records.
    fn name(&self) -> &'static str;

    /// Name in a sentence.
    fn title(&self) -> &'static str;

    /// Why it cannot be measured with this program on this host; `None` when it can.
    fn why_not(&self, asked: &Asked<'_>) -> Option<WhyNot>;

    /// Names of what lies between the database and the medium.
    fn layers(&self) -> Layers {
        Layers { client: self.title(), network: None, server: None }
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
    /// When the database could not work there: not there, not allowed, or of another kind than the path says.
    fn examine_target(&self, _target: &str, _user: &User) -> Result<TargetFacts, LabError> {
        Err(not_measurable(self.title()))
    }

    /// Where the files lie, in a clause; `named` storage is a target, other storage is Millrace's own.
    fn files_lie(&self, _named: bool) -> &'static str {
        "storage of the path"
    }

    /// Which cache below the database's own may answer its reads when no medium is modelled.
    fn page_cache(&self, _named: bool) -> PageCache {
        PageCache { may_answer: true, because: "nothing is known of the caches below" }
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
}

/// Why a path cannot be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WhyNot {
    /// No host could: this version does not have it. The reason begins with "not built yet".
    NotBuilt(&'static str),
    /// This host or installation lacks something, and what to do about it.
    Lacks(String),
}

impl fmt::Display for WhyNot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt(reason) => formatter.write_str(reason),
            Self::Lacks(reason) => formatter.write_str(reason),
        }
    }
}

/// Names of the layers of a path between the database and the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layers {
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
    /// Why, in one clause.
    pub(crate) because: &'static str,
}

/// What is to be put in place for an arm.
pub(crate) struct PlacementOrder<'a> {
    /// Storage that Millrace did not make; `None` for its own.
    pub(crate) target: Option<&'a str>,
    /// What lies on volumes of its own; the data comes first.
    pub(crate) parts: Vec<Part>,
    pub(crate) work: &'a WorkDir,
    /// The user the database runs as.
    pub(crate) user: &'a User,
}

/// The place of an arm's files, kept for all its runs.
pub(crate) trait Placement {
    /// What lies apart here; the data comes first.
    fn parts(&self) -> &[Part];

    /// Where the database finds a part.
    fn database_finds(&self, part: Part) -> PathBuf;

    /// How the loaded state comes here, where `own` is the way within the work directory: `reflink`, `copy` or `nfs`.
    fn method(&self, own: Method) -> &'static str;

    /// Brings a copy of the state kept in `master` here; `progress` is called with the bytes done.
    ///
    /// Durability: on stable storage when it returns.
    fn restore(&mut self, master: &Path, own: Method, user: &User, progress: &mut dyn FnMut(u64)) -> Result<(), LabError>;

    /// Drops the copy from this host's page cache, as far as it is there.
    fn drop_page_cache(&self) -> Result<(), LabError>;

    /// Starts what serves the files of one run.
    ///
    /// # Errors
    /// When a process does not start. Those that did are stopped.
    fn start(&self, order: &StartOrder<'_>) -> Result<Box<dyn Storage>, LabError>;

    /// Removes the copy after a run.
    fn clear(&mut self) -> Result<(), LabError>;

    /// Removes everything that was made here and says what could not be removed.
    fn remove(self: Box<Self>) -> Result<(), LabError>;
}

impl dyn Placement + '_ {
    /// The cluster's directory as the database finds it.
    pub(crate) fn data(&self) -> PathBuf {
        self.database_finds(Part::Data).join(DATA)
    }

    /// Where finished log segments are to be copied, as the database finds it; none when they are not.
    pub(crate) fn archive(&self) -> Option<PathBuf> {
        self.parts().contains(&Part::Archive).then(|| self.database_finds(Part::Archive))
    }
}

/// How the storage of one run is to be started.
pub(crate) struct StartOrder<'a> {
    /// The copy of this program that the database's user can read.
    pub(crate) program: &'a Path,
    pub(crate) work: &'a WorkDir,
    pub(crate) tuning: &'a Tuning,
    /// Medium to model below the files.
    pub(crate) medium: Option<&'a str>,
    /// Number of the run, for the names of logs.
    pub(crate) sequence: u32,
}

/// The storage of one run, at work. Dropping it ends its processes.
pub(crate) trait Storage {
    /// Put before a program so that it finds its files: `millrace exec … --`, or nothing.
    fn command_prefix(&self) -> &[OsString];

    /// The database has started: what it shares with its clients can be opened now.
    fn database_started(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// What the database's own reads are compared with.
    fn proof_source(&self) -> ProofSource;

    /// Network interfaces that its bytes cross; `None` when none leave the database's host.
    fn interfaces(&self) -> Option<Interfaces> {
        None
    }

    /// Pid of each serving process, with the part it serves.
    fn servers(&self) -> Vec<(Part, u32)> {
        Vec::new()
    }

    /// An error when a serving process has ended.
    fn expect_alive(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// What servers and clients counted since they began.
    fn counters(&self) -> Result<StorageCounters, LabError> {
        Ok(StorageCounters::default())
    }

    /// Bytes read on the path since it began, as its proof source counts them.
    fn reads(&self, database: &mut Server) -> Result<Reads, LabError>;

    /// What the modelled media counted so far, all volumes together; none without one.
    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError>;

    /// Clean stop.
    fn stop(self: Box<Self>) -> Result<(), LabError> {
        Ok(())
    }
}

/// What servers and clients of a path counted since they began.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageCounters {
    /// Calls our servers answered, all of them together.
    pub(crate) server_calls: BTreeMap<String, ProcedureCount>,
    /// How our servers keep written data safe, as the first one says; they share one set of options. None without one.
    pub(crate) durability: Option<String>,
    /// Connections open to our servers of the data; none without one.
    pub(crate) connections: Option<u64>,
    /// Calls of our own client, all volumes together.
    pub(crate) client_calls: BTreeMap<String, ProcedureCount>,
    /// What our own clients did, one entry for each volume, the data's first.
    pub(crate) client_activity: Vec<Activity>,
}

/// Bytes read on a path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads {
    /// From each volume; empty when nothing counts them apart.
    pub(crate) by_volume: Vec<(Part, u64)>,
    /// Of the data; none when nothing counts them.
    pub(crate) of_data: Option<u64>,
}

impl Reads {
    /// From what was read of each volume.
    pub(crate) fn of_volumes(by_volume: Vec<(Part, u64)>) -> Self {
        let data = by_volume.iter().filter(|(part, _)| part.holds_data()).map(|(_, bytes)| bytes).sum();
        Self { by_volume, of_data: Some(data) }
    }
}

/// Adds calls to those of a procedure.
pub(crate) fn add_calls(counts: &mut BTreeMap<String, ProcedureCount>, name: &str, more: &ProcedureCount) {
    let all = counts.entry(name.to_owned()).or_default();
    all.calls += more.calls;
    all.bytes += more.bytes;
}

/// A target that does not fit a path.
fn refused(path: &str, target: &str, form: &str) -> LabError {
    LabError::plan(format!("use \"{target}\" as the target of path {path}"), &format!("its target is {form}"))
}

/// A path that this version can only skip.
fn not_measurable(title: &str) -> LabError {
    LabError::Missing {
        what: format!("measure {title}: not built yet"),
        hint: "millrace doctor shows what can be measured here".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_a_name_of_its_own_and_is_found_by_it() {
        for (place, path) in ALL.into_iter().enumerate() {
            assert_eq!(ALL.iter().position(|other| other.name() == path.name()), Some(place));
            assert_eq!(find(path.name()).map(StoragePath::title), Some(path.title()));
        }
        assert!(find("floppy").is_none());
    }

    #[test]
    fn a_path_that_can_only_be_skipped_is_never_put_anywhere() {
        let base = tempfile::tempdir().unwrap();
        let user = crate::sys::user_by_uid(crate::sys::effective_uid()).unwrap();
        let work = WorkDir::create(base.path(), &user, false).unwrap();
        let asked = Asked { program: Path::new("/millrace"), target: None, medium: false };
        let not_built = |path: &PathRef| matches!(path.why_not(&asked), Some(WhyNot::NotBuilt(_)));
        let skipped: Vec<PathRef> = ALL.into_iter().filter(not_built).collect();
        assert!(!skipped.is_empty());
        for path in skipped {
            let order = PlacementOrder { target: None, parts: vec![Part::Data], work: &work, user: &user };
            assert!(path.prepare(order).is_err(), "{path:?}");
        }
    }
}
