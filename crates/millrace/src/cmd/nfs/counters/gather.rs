//! Collects the reports of this host's mounts: which exist, which processes use them, which calls wait, and the counters.
//! Prints nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use dnfs::activity::{Activity, Operations, SlotUse, size_of_place};
use dnfs::mount::{MountProcesses, Observer, SegmentError, processes_of};
use serde::Serialize;

use super::options::OptionsReport;

/// The mounts below runtime directories, or one mount that the user named.
pub(crate) struct Mounts {
    /// The last attached first.
    pub(crate) reports: Vec<MountReport>,
    /// Directories that cannot be read, each with its error, such as those of another version of
    /// this program.
    pub(crate) unreadable: Vec<(PathBuf, SegmentError)>,
}

/// Whether a mount's segment is needed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Programs use it, or its keeper has not ended yet.
    InUse,
    /// No process uses it, but it keeps uncommitted data, an unreported error or hidden names.
    Unsaved,
    /// No process uses it, and it keeps nothing.
    Dead,
}

/// One mount.
#[derive(Serialize)]
pub(crate) struct MountReport {
    pub(crate) runtime_dir: PathBuf,
    /// The paths at which programs have it, newest first.
    pub(crate) paths: Vec<PathReport>,
    pub(crate) state: State,
    /// What it keeps, if its state is [`State::Unsaved`].
    pub(crate) unsaved: Option<UnsavedReport>,
    /// The server's address in use.
    pub(crate) server: Option<String>,
    /// The server refused the export when a process last asked for it.
    pub(crate) is_gone: bool,
    /// The file system that has the shared memory.
    pub(crate) shared_memory: Option<SharedMemoryReport>,
    /// Programs that use it, as far as this user may see them.
    pub(crate) processes: Vec<ProcessReport>,
    /// The process that commits for programs that ended.
    pub(crate) keeper: Option<u32>,
    /// Calls that have waited for an answer for a second or longer, the longest first.
    pub(crate) calls_in_progress: Vec<CallReport>,
    /// Files that programs of root made without the library: they are on no server.
    pub(crate) strays: Vec<PathBuf>,
    /// Length of the interval. `None`: everything so far is counted.
    pub(crate) seconds: Option<f64>,
    pub(crate) reads: OperationReport,
    pub(crate) writes: OperationReport,
    pub(crate) commits: OperationReport,
    /// Reads, writes and COMMITs of programs in progress, on average; waits for a slot included.
    pub(crate) in_progress_mean: Option<f64>,
    pub(crate) slots: Option<SlotReport>,
    pub(crate) writer_waits: u64,
    pub(crate) writer_wait_us: f64,
    /// Written data that is not stable yet and is kept to be resent: the amount now, and the limit.
    pub(crate) retained_bytes: u64,
    pub(crate) retained_bytes_max: u64,
}

/// What a mount keeps after all its processes ended.
#[derive(Serialize)]
pub(crate) struct UnsavedReport {
    /// Files with written data that the server has not committed.
    pub(crate) uncommitted_files: usize,
    /// Bytes of them that this host can resend.
    pub(crate) uncommitted_bytes: u64,
    /// Numbers of the files that lost written data, if no program has received the error yet.
    pub(crate) lost_files: Vec<u64>,
    /// Names of removed files that programs had open.
    pub(crate) hidden_names: usize,
}

/// A path at which programs have the export.
#[derive(Serialize)]
pub(crate) struct PathReport {
    pub(crate) path: String,
    pub(crate) url: String,
    /// Options of the program that attached last; null if an older library left them out.
    pub(crate) options: Option<OptionsReport>,
    /// When a program last attached there, RFC 3339 in UTC.
    pub(crate) attached: String,
}

/// The file system that has the shared memory of a mount.
#[derive(Serialize)]
pub(crate) struct SharedMemoryReport {
    pub(crate) bytes: u64,
    pub(crate) bytes_free: u64,
}

#[derive(Serialize)]
pub(crate) struct ProcessReport {
    pub(crate) pid: u32,
    pub(crate) command: String,
}

#[derive(Serialize)]
pub(crate) struct CallReport {
    pub(crate) procedure: String,
    pub(crate) pid: u32,
    pub(crate) seconds: f64,
    /// RFC 3339 in UTC.
    pub(crate) since: String,
}

#[derive(Serialize)]
pub(crate) struct OperationReport {
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    /// Counts of calls by payload. A key is the largest payload in bytes; the smallest is more than
    /// half of it.
    pub(crate) sizes: BTreeMap<u64, u64>,
    pub(crate) mean_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// Slots of a mount with a limit.
#[derive(Serialize)]
pub(crate) struct SlotReport {
    pub(crate) limit: u32,
    pub(crate) in_use_mean: Option<f64>,
    pub(crate) most: u32,
    pub(crate) calls: u64,
    pub(crate) waits: u64,
    pub(crate) wait_us_mean: f64,
    pub(crate) beyond: u64,
    pub(crate) reclaimed: u64,
}

/// A mount's segment and its directory.
struct Found {
    directory: PathBuf,
    observer: Observer,
    newest: SystemTime,
}

/// Reads the mount in this directory. `None` if there is no mount.
///
/// # Errors
/// The mount cannot be read.
pub(crate) fn one(directory: &Path, interval: Option<Duration>) -> anyhow::Result<Option<Mounts>> {
    let context = || format!("read the counters in {}", directory.display());
    let Some(observer) = Observer::at(directory).with_context(context)? else { return Ok(None) };
    let found = Found::new(directory.to_owned(), observer);
    Ok(Some(Mounts { reports: reports(&[found], interval), unreadable: Vec::new() }))
}

/// Reads all mounts below these runtime directories, for an interval from now on, or everything so far.
pub(crate) fn all(runtimes: &[PathBuf], interval: Option<Duration>) -> Mounts {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for directory in runtimes.iter().flat_map(|runtime| Observer::directories(runtime)) {
        match Observer::at(&directory) {
            Ok(observer) => found.extend(observer.map(|observer| Found::new(directory, observer))),
            Err(error) => unreadable.push((directory, error)),
        }
    }
    found.sort_by_key(|found| std::cmp::Reverse(found.newest));
    Mounts { reports: reports(&found, interval), unreadable }
}

/// Removes the dead segments below these runtime directories. Returns their own directories.
///
/// # Errors
/// The kernel's, for a segment that cannot be removed.
pub(crate) fn remove_dead(runtimes: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for directory in runtimes.iter().flat_map(|runtime| Observer::directories(runtime)) {
        let Ok(Some(observer)) = Observer::at(&directory) else { continue };
        if observer.remove_if_dead().with_context(|| format!("remove the segment in {}", directory.display()))? {
            removed.push(directory);
        }
    }
    Ok(removed)
}

fn reports(found: &[Found], interval: Option<Duration>) -> Vec<MountReport> {
    let read = || found.iter().map(|found| found.observer.activity()).collect::<Vec<_>>();
    let before = interval.map(|interval| {
        let before = read();
        std::thread::sleep(interval);
        before
    });
    let directories: Vec<PathBuf> = found.iter().map(|found| found.directory.clone()).collect();
    let mut reports = Vec::new();
    for (index, ((found, now), processes)) in found.iter().zip(read()).zip(processes_of(&directories)).enumerate() {
        let earlier = before.as_ref().and_then(|before| before.get(index));
        reports.push(found.report(&now, earlier, processes));
    }
    reports
}

impl Found {
    fn new(directory: PathBuf, observer: Observer) -> Self {
        let attached = observer.paths().first().map(|path| path.attached);
        let newest = attached.or_else(|| observer.made()).unwrap_or(SystemTime::UNIX_EPOCH);
        Self { directory, observer, newest }
    }

    /// The state of the segment: in use if that cannot be determined.
    fn state(&self) -> State {
        match (self.observer.is_in_use(), self.observer.is_dead()) {
            (Ok(false), Ok(true)) => State::Dead,
            (Ok(false), Ok(false)) => State::Unsaved,
            _ => State::InUse,
        }
    }

    fn report(&self, now: &Activity, earlier: Option<&Activity>, processes: MountProcesses) -> MountReport {
        let elapsed = earlier.map(|earlier| Duration::from_nanos(now.at_ns - earlier.at_ns));
        let activity = earlier.map_or_else(|| now.clone(), |earlier| now.since(earlier));
        let retained = self.observer.retained();
        let state = self.state();
        MountReport {
            runtime_dir: self.directory.clone(),
            paths: self.paths(),
            state,
            unsaved: (state == State::Unsaved).then(|| self.unsaved()).flatten(),
            server: self.observer.server().map(|server| server.to_string()),
            is_gone: self.observer.is_gone(),
            shared_memory: self
                .observer
                .shared_memory()
                .map(|memory| SharedMemoryReport { bytes: memory.bytes, bytes_free: memory.bytes_free }),
            calls_in_progress: self.calls(&processes),
            strays: self.observer.strays(),
            keeper: processes.keepers.first().copied(),
            processes: processes
                .programs
                .into_iter()
                .map(|process| ProcessReport { pid: process.pid, command: process.command })
                .collect(),
            seconds: elapsed.map(|elapsed| elapsed.as_secs_f64()),
            reads: OperationReport::new(&activity.reads),
            writes: OperationReport::new(&activity.writes),
            commits: OperationReport::new(&activity.commits),
            in_progress_mean: elapsed.map(|elapsed| activity.in_progress_mean(elapsed)),
            slots: activity.slots.map(|slots| {
                let mut report = SlotReport::new(&slots, elapsed.unwrap_or(Duration::MAX));
                report.in_use_mean = report.in_use_mean.filter(|_| elapsed.is_some());
                report
            }),
            writer_waits: activity.writer_waits,
            writer_wait_us: activity.writer_wait_ns as f64 / 1e3,
            retained_bytes: retained.bytes,
            retained_bytes_max: retained.bytes_max,
        }
    }

    /// `None` if the memory of written data cannot be read.
    fn unsaved(&self) -> Option<UnsavedReport> {
        let files = self.observer.unsaved().ok()?;
        let uncommitted = || files.iter().filter(|file| file.is_uncommitted);
        Some(UnsavedReport {
            uncommitted_files: uncommitted().count(),
            uncommitted_bytes: uncommitted().map(|file| file.kept_bytes).sum(),
            lost_files: files.iter().filter(|file| file.has_error).map(|file| file.fileid).collect(),
            hidden_names: self.observer.hidden_names(),
        })
    }

    fn paths(&self) -> Vec<PathReport> {
        let paths = self.observer.paths().into_iter();
        let report = |path: dnfs::mount::MountPath| PathReport {
            path: path.path,
            url: path.url,
            options: path.options.as_ref().map(OptionsReport::of),
            attached: lab::clock::utc(path.attached),
        };
        paths.map(report).collect()
    }

    fn calls(&self, processes: &MountProcesses) -> Vec<CallReport> {
        let now = SystemTime::now();
        let calls = self.observer.calls_in_progress().into_iter();
        let report = |call: dnfs::CallInProgress| {
            // A process in a container notes the process number that it has in the container.
            let here = processes.programs.iter().find(|process| process.inner_pid == call.pid);
            CallReport {
                procedure: call.procedure,
                pid: here.map_or(call.pid, |process| process.pid),
                seconds: call.waited.as_secs_f64(),
                since: now.checked_sub(call.waited).map(lab::clock::utc).unwrap_or_default(),
            }
        };
        calls.map(report).collect()
    }
}

impl OperationReport {
    fn new(operations: &Operations) -> Self {
        let sizes = operations.sizes.iter().enumerate().filter(|(_, count)| **count > 0);
        let count = operations.latency.count();
        let us = |share| operations.latency.quantile(share).map(|time| time.as_secs_f64() * 1e6);
        Self {
            calls: operations.calls,
            bytes: operations.bytes,
            sizes: sizes.map(|(place, count)| (size_of_place(place), *count)).collect(),
            mean_us: (count > 0).then(|| operations.ns as f64 / 1e3 / count as f64),
            p50_us: us(0.5),
            p99_us: us(0.99),
        }
    }
}

impl SlotReport {
    pub(crate) fn new(slots: &SlotUse, elapsed: Duration) -> Self {
        Self {
            limit: slots.limit,
            in_use_mean: Some(slots.in_use_mean(elapsed)),
            most: slots.most,
            calls: slots.calls,
            waits: slots.waits,
            wait_us_mean: slots.wait_ns as f64 / 1e3 / slots.waits.max(1) as f64,
            beyond: slots.beyond,
            reclaimed: slots.reclaimed,
        }
    }
}
