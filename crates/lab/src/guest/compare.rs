//! A comparison inside a guest: this host's program, plan and database, a disk of the guest for the files of all paths, and the
//! shared directory of the record.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::compare::{OutDirectory, remove_journal_without_runs};
use crate::error::LabError;
use crate::guest::cache::Cache;
use crate::guest::programs::MKFS_EXT4;
use crate::guest::run::{self, Record, Request};
use crate::guest::work::Work;
use crate::host::environment;
use crate::limits::{GUEST_COMPARE_MAX, GUEST_CPUS_MAX, GUEST_DISK_BYTES_MIN, GUEST_MEMORY_BYTES_MIN};
use crate::plan::Plan;

/// Mount point of the disk in the guest: the work directory of the comparison is created there.
pub const WORK: &str = "/run/millrace-work";
/// Upper limit of the guest's memory, for the database's buffers and the programs.
const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Size of the file system as a multiple of the plan's need: the space of removed files is not free at once.
const DISK_PER_NEED: u64 = 2;

/// Script that runs in the guest; its arguments are the clients to start and the command of the comparison.
const SCRIPT: &str = concat!(include_str!("storage_clients.sh"), include_str!("compare.sh"));

/// The services that the guest must start for the paths of a plan.
#[must_use]
pub fn clients(plan: &Plan) -> Vec<&'static str> {
    let own = plan.arms.iter().filter(|arm| arm.path.target.is_none());
    let mut names: Vec<&str> = own.filter_map(|arm| arm.path.kind.started_by_guest()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The order to run a comparison in a guest.
#[derive(Debug)]
pub struct Order {
    /// Program and arguments, with `--work` [`WORK`].
    pub command: Vec<OsString>,
    /// Directory of the record; `None` if nothing is written.
    pub out: Option<PathBuf>,
    /// Whether the directory contains finished runs to continue from.
    pub resume: bool,
    /// Directory of this host in which the file of the disk is created.
    pub disk_base: PathBuf,
    /// Bytes that the plan needs for its files.
    pub needed_bytes: u64,
    /// The services that the guest must start ([`clients`]).
    pub clients: Vec<&'static str>,
}

/// Boots a guest and runs the comparison in it. Passes its output and errors on as they come.
///
/// Must be called on the main thread.
///
/// # Errors
/// No guest can be started here; [`LabError::Interrupted`], or the error with the finished runs that are kept.
pub fn compare(cache: &Cache, order: &Order, output: [Box<dyn Write + Send>; 2]) -> Result<Record, LabError> {
    MKFS_EXT4.require()?;
    let made = match &order.out {
        Some(out) if !order.resume => Some(OutDirectory::make(out)?),
        _ => None,
    };
    let work = Work::make_below(&order.disk_base)?;
    let bytes = GUEST_DISK_BYTES_MIN.max(order.needed_bytes.saturating_mul(DISK_PER_NEED));
    // The second one is for a path whose storage is a disk of the guest.
    let disks = ["disk", "second-disk"].map(|name| work.path(name));
    for disk in &disks {
        File::create_new(disk).and_then(|file| file.set_len(bytes)).map_err(LabError::file("create", disk))?;
    }
    let script = ["sh", "-c", SCRIPT, "sh", &order.clients.join(",")].map(OsString::from);
    let request = Request {
        command: script.into_iter().chain(order.command.iter().cloned()).collect(),
        directory: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        timeout: GUEST_COMPARE_MAX,
        cpus: processors(),
        memory_bytes: (environment::memory_bytes() / 2).clamp(GUEST_MEMORY_BYTES_MIN, MEMORY_BYTES_MAX),
        nics: 1,
        shares: order.out.iter().cloned().collect(),
        disks: disks.to_vec(),
        input: false,
        accelerator: None,
        kernel_arguments: Vec::new(),
    };
    let outcome = run::run(cache, &request, output);
    let ended = outcome.as_ref().is_ok_and(|record| record.outcome == run::Outcome::Ended);
    let has_runs = order.out.as_deref().is_some_and(|out| !ended && keeps_runs(out));
    if let Some(made) = made.filter(|_| !has_runs) {
        made.unmake(); // as far as it is empty
    }
    match (outcome, &order.out) {
        (Err(LabError::Interrupted), Some(out)) if has_runs => Err(LabError::interrupted_with_runs(out)),
        (outcome, _) => outcome,
    }
}

/// Whether there are runs to continue from; removes a journal without runs, because the guest is gone and cannot do that itself.
fn keeps_runs(out: &Path) -> bool {
    out.join("runs.jsonl").is_file() && !remove_journal_without_runs(out)
}

/// All processors of this host: the database, the filer and the driver share them, as without a guest.
fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1)).min(GUEST_CPUS_MAX)
}

/// Longest time of a comparison in a guest.
#[must_use]
pub fn time_limit() -> Duration {
    GUEST_COMPARE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DEFAULT_PLAN, Overrides};

    #[test]
    fn a_journal_without_runs_is_removed_and_one_with_runs_is_kept() {
        let out = tempfile::tempdir().unwrap();
        let journal = out.path().join("runs.jsonl");
        assert!(!keeps_runs(out.path()));
        std::fs::write(&journal, "{\"schema\":1}\n").unwrap();
        assert!(!keeps_runs(out.path()) && !journal.exists());
        std::fs::write(&journal, "{\"schema\":1}\n{\"place\":0}\n").unwrap();
        assert!(keeps_runs(out.path()) && journal.exists());
    }

    #[test]
    fn the_script_makes_the_directory_that_the_comparison_is_told_of() {
        assert_eq!(SCRIPT.matches(WORK).count(), 2);
    }

    #[test]
    fn a_guest_starts_what_the_paths_of_the_plan_need_each_once_and_nothing_for_a_named_device() {
        let plan = |paths: &str| {
            let paths = paths.split(' ').map(str::to_owned).collect();
            let overrides =
                Overrides { paths: Some(paths), tunings: Some(vec!["untuned".into(), "tuned".into()]), ..Overrides::default() };
            clients(&Plan::parse(DEFAULT_PLAN, &overrides).unwrap())
        };
        assert_eq!(plan("local dnfs knfs iscsi fc"), ["fc", "iscsi"]);
        assert_eq!(plan("local dnfs"), Vec::<&str>::new());
        assert_eq!(plan("iscsi fc=/dev/mapper/x"), ["iscsi"]);
    }
}
