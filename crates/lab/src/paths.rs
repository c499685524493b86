//! Storage paths: the ways from a database to its files, all with one interface.
//!
//! A path is a value of [`storage_path::StoragePath`]. It reports why it cannot be measured here, which targets it accepts, and
//! places the files of a configuration ([`placement::Placement`]); a placement starts the processes that serve the files of one run
//! ([`storage::Storage`]). Preparation, measurement, doctor, dry run and skip reasons use these three.
//!
//! A new path is a file in `paths/` and its two lines in this one. No other product code knows a path by its name, except the
//! published findings (`shapes`); a test of the tree checks that. A path that can only be skipped implements the first three methods
//! of [`storage_path::StoragePath`]: the default methods return an error, and there is no fallback to another path.

mod block;
mod device;
pub(crate) mod dnfs;
#[cfg(test)]
mod dummy;
pub(crate) mod exec;
mod fc;
mod filer;
pub(crate) mod filer_loss;
mod filers;
mod iscsi;
mod kernel_files;
mod knfs;
pub(crate) mod local;
pub(crate) mod medium;
pub(crate) mod placement;
pub(crate) mod storage;
pub(crate) mod storage_path;

use std::path::Path;

use results::compare::PathResult;

use crate::error::LabError;
use crate::plan::Layout;
use storage_path::{PathRef, StoragePath};

/// Every path, in the order of a report.
pub(crate) static ALL: &[PathRef] = &[
    &local::Local,
    &dnfs::Dnfs,
    &iscsi::MILLRACE,
    &knfs::Knfs,
    &fc::FC,
    &block::Block,
    #[cfg(test)]
    &dummy::Dummy,
];

/// Ends what a killed comparison left on this host for a work directory of Millrace, on all paths. `program` is this program.
///
/// # Errors
/// Something cannot be ended; the directory then stays.
pub(crate) fn end_left_behind(program: &Path, directory: &Path) -> Result<(), LabError> {
    ALL.iter().try_for_each(|path| path.end_left_behind(program, directory))
}

/// Name and title of every path, in the order of a report.
pub fn titles() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|path| (path.name(), path.title()))
}

/// The path that hints name as an example.
pub(crate) static EXAMPLE: PathRef = &dnfs::Dnfs;

/// The path with this name.
pub(crate) fn find(name: &str) -> Option<PathRef> {
    ALL.iter().copied().find(|path| path.name() == name)
}

/// The path of a measured configuration, with the client that it used.
pub(crate) fn of(result: &PathResult) -> Option<PathRef> {
    let path = find(&result.name)?;
    let with_client = result.client.as_deref().and_then(|client| path.with_client(client));
    Some(with_client.unwrap_or(path))
}

/// The client of a measured configuration, by its name in records.
pub(crate) fn client(result: &PathResult) -> &str {
    result.client.as_deref().unwrap_or_else(|| unnamed_client(result))
}

/// The client of a measured configuration if its record does not name one.
pub(crate) fn unnamed_client(result: &PathResult) -> &'static str {
    find(&result.name).map_or("", StoragePath::unnamed_client)
}

/// The name in records of the setting for the slots of a configuration, as `layer.name`; `None` if its path has none.
pub(crate) fn slots_knob(result: &PathResult) -> Option<String> {
    find(&result.name)?.slots_setting().map(|setting| format!("{}.{setting}", result.name))
}

/// Names of the paths with a property.
pub(crate) fn names_of(has: fn(PathRef) -> bool) -> String {
    let names: Vec<&str> = ALL.iter().copied().filter(|path| has(*path)).map(|path| path.name()).collect();
    names.join(", ")
}

/// What each path says, once each, in the order of the paths; of equal words the last are kept.
pub(crate) fn each(words: fn(PathRef) -> Option<&'static str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for words in ALL.iter().copied().filter_map(words) {
        all.retain(|known| *known != words);
        all.push(words);
    }
    all.join("; ")
}

/// Why two configurations are never ranked; `None` if they may be.
pub(crate) fn never_ranked(one: &PathResult, other: &PathResult) -> Option<&'static str> {
    let why = |one: &PathResult, other: &PathResult| {
        of(one)?.never_ranked_with().filter(|(name, _)| *name == other.name).map(|(_, why)| why)
    };
    why(one, other).or_else(|| why(other, one))
}

/// The file system of a configuration that is striped over LUNs, in a sentence.
pub(crate) fn striped(result: &PathResult) -> Option<String> {
    let luns = result.layout_name.as_deref()?.parse::<Layout>().ok()?.luns();
    of(result).filter(|_| luns > 1)?.striped(luns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::placement::PlacementOrder;
    use crate::paths::storage_path::{Asked, WhyNot};
    use crate::placement::part::Part;
    use crate::placement::workdir::WorkDir;
    use crate::plan::Tuning;

    #[test]
    fn every_path_has_a_name_of_its_own_and_is_found_by_it() {
        for (place, path) in ALL.iter().copied().enumerate() {
            assert_eq!(ALL.iter().position(|other| other.name() == path.name()), Some(place));
            assert_eq!(find(path.name()).map(StoragePath::title), Some(path.title()));
        }
        assert!(find("floppy").is_none());
    }

    #[test]
    fn a_path_whose_device_is_not_named_is_never_put_anywhere() {
        let base = tempfile::tempdir().unwrap();
        let user = crate::sys::user_by_uid(crate::sys::effective_uid()).unwrap();
        let work = WorkDir::create(base.path(), &user, false).unwrap();
        let asked = Asked { program: Path::new("/millrace"), target: None, medium: false, luns: 1, tuning: &Tuning::default() };
        for path in [find("fc").unwrap(), find("block").unwrap()] {
            assert!(matches!(path.why_not(&asked), Some(WhyNot::NotHere(_))), "{path:?}");
            let order = PlacementOrder {
                target: None,
                parts: vec![Part::Data],
                layout: Layout::One,
                tuning: &Tuning::default(),
                program: Path::new("/millrace"),
                overwrite: false,
                work: &work,
                user: &user,
            };
            assert!(path.prepare(order).is_err(), "{path:?}");
        }
    }

    #[test]
    fn path_iscsi_alone_stripes_a_file_system_over_luns() {
        let striped = |path: &PathRef| path.striped(4);
        let all: Vec<_> = ALL.iter().filter_map(|path| Some((path.name(), striped(path)?))).collect();
        assert_eq!(all, [("iscsi", "btrfs over 4 LUNs".to_owned())]);
    }
}
