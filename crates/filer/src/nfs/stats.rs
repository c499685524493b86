//! Counters of NFS calls: atomics, one row for each procedure. Counting takes no lock and looks up no name.
//!
//! Each thread counts a call in its own copy: see [`sharded`](crate::sharded). Calls that ended with an error are also counted
//! in one shared table, because they are few, or slow anyway.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nfs_proto::nfs3::{NfsStatus, Procedure};
use results::filer_stats::ProcedureStats;

use crate::latency::{Counted, Latencies};
use crate::sharded::{Sharded, add};

/// One row for each NFS procedure, and one for MOUNT.
const ROWS: usize = Procedure::ALL.len() + 1;
const MOUNT_ROW: usize = ROWS - 1;
/// Name of the row for MOUNT.
pub(crate) const MOUNT: &str = "MOUNT";
/// The NFS statuses, and one for calls that RPC refused.
const STATUSES: usize = NfsStatus::ALL.len() + 1;

/// The result of an answered call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The reply has this status. The statuses of MOUNT have the same numbers.
    Status(NfsStatus),
    /// RPC refused the call: its arguments could not be decoded.
    Refused,
}

impl Answer {
    pub(crate) const OK: Self = Self::Status(NfsStatus::Ok);
}

/// Counters since the start.
#[derive(Debug)]
pub struct Stats {
    rows: Sharded<[Row; ROWS]>,
    errors: Box<[[AtomicU64; STATUSES]; ROWS]>,
    cold_reads: AtomicU64,
}

/// Counters of the calls of one procedure or client, on cache lines of their own. The number of calls is the sum of the
/// latency buckets.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Row {
    bytes: AtomicU64,
    latencies: Latencies,
}

impl Row {
    /// Counts an answered call.
    pub(crate) fn count(&self, bytes: u64, took: Duration) {
        self.latencies.add(took);
        if bytes > 0 {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Adds the counters of another row.
    pub(crate) fn add_all(&self, others: &Self) {
        add(&self.bytes, &others.bytes);
        self.latencies.add_all(&others.latencies);
    }

    /// Adds these counters to `sums`.
    pub(crate) fn add_to(&self, sums: &mut CountedRow) {
        sums.bytes += self.bytes.load(Ordering::Relaxed);
        self.latencies.add_to(&mut sums.latencies);
    }
}

impl Default for Stats {
    fn default() -> Self {
        let errors = Box::new([const { [const { AtomicU64::new(0) }; STATUSES] }; ROWS]);
        Self { rows: Sharded::default(), errors, cold_reads: AtomicU64::new(0) }
    }
}

impl Stats {
    /// Counts an answered NFS call. `bytes`: the payload of a READ or WRITE.
    pub(crate) fn count(&self, procedure: Procedure, answer: Answer, bytes: u64, took: Duration) {
        self.add(procedure.number() as usize, answer, bytes, took);
    }

    /// Counts an answered MOUNT call.
    pub(crate) fn count_mount(&self, answer: Answer, took: Duration) {
        self.add(MOUNT_ROW, answer, 0, took);
    }

    /// Counts a READ that the page cache could not answer.
    pub(crate) fn count_cold_read(&self) {
        self.cold_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// READs that the page cache could not answer.
    #[must_use]
    pub fn cold_reads(&self) -> u64 {
        self.cold_reads.load(Ordering::Relaxed)
    }

    fn add(&self, row: usize, answer: Answer, bytes: u64, took: Duration) {
        let Some(counters) = self.rows.own().and_then(|rows| rows.get(row)) else { return };
        counters.count(bytes, took);
        if answer != Answer::OK {
            self.count_error(row, answer);
        }
    }

    fn count_error(&self, row: usize, answer: Answer) {
        let status = match answer {
            Answer::Status(status) => NfsStatus::ALL.iter().position(|known| *known == status),
            Answer::Refused => None,
        };
        if let Some(error) = self.errors.get(row).and_then(|row| row.get(status.unwrap_or(STATUSES - 1))) {
            error.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds the counters of another export.
    pub(crate) fn add_all(&self, others: &Self) {
        let Some(own) = self.rows.own() else { return };
        others.rows.each().for_each(|rows| own.iter().zip(rows).for_each(|(row, more)| row.add_all(more)));
        self.errors.iter().flatten().zip(others.errors.iter().flatten()).for_each(|(sum, more)| add(sum, more));
        add(&self.cold_reads, &others.cold_reads);
    }

    /// The counters by procedure name.
    #[must_use]
    pub fn procedures(&self) -> BTreeMap<String, ProcedureStats> {
        let named = |(name, row): (&str, CountedRow)| (name.to_owned(), row.stats());
        row_names().zip(self.rows()).map(named).collect()
    }

    /// The counters in the order of [`row_names`].
    pub(crate) fn rows(&self) -> Vec<CountedRow> {
        let mut rows: Vec<CountedRow> = self.errors.iter().map(CountedRow::of_errors).collect();
        self.rows.each().for_each(|copy| rows.iter_mut().zip(copy).for_each(|(sums, row)| row.add_to(sums)));
        rows
    }
}

/// The counters of a procedure at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedRow {
    pub(crate) bytes: u64,
    pub(crate) latencies: Counted,
    /// Number of errors by status, without statuses that did not occur. `None`: RPC refused the call.
    pub(crate) errors: Vec<(Option<NfsStatus>, u64)>,
}

impl CountedRow {
    fn of_errors(errors: &[AtomicU64; STATUSES]) -> Self {
        let statuses = NfsStatus::ALL.iter().copied().map(Some).chain([None]);
        let counts = errors.iter().map(|count| count.load(Ordering::Relaxed));
        Self { errors: statuses.zip(counts).filter(|(_, count)| *count > 0).collect(), ..Self::default() }
    }

    /// The counters in the form of a record.
    pub(crate) fn stats(&self) -> ProcedureStats {
        ProcedureStats {
            calls: self.latencies.count(),
            errors: self.errors.iter().map(|(_, count)| count).sum(),
            bytes: self.bytes,
            latency: self.latencies.summary(),
        }
    }

    /// Adds the counters of another row.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.latencies.merge(&other.latencies);
        self.errors.extend_from_slice(&other.errors);
    }
}

/// Names of the rows: the procedures as RFC 1813 writes them, and MOUNT.
pub(crate) fn row_names() -> impl Iterator<Item = &'static str> {
    Procedure::ALL.iter().map(|&procedure| name(procedure)).chain([MOUNT])
}

/// The name of a procedure as RFC 1813 writes it.
#[must_use]
pub const fn name(procedure: Procedure) -> &'static str {
    match procedure {
        Procedure::Null => "NULL",
        Procedure::GetAttr => "GETATTR",
        Procedure::SetAttr => "SETATTR",
        Procedure::Lookup => "LOOKUP",
        Procedure::Access => "ACCESS",
        Procedure::ReadLink => "READLINK",
        Procedure::Read => "READ",
        Procedure::Write => "WRITE",
        Procedure::Create => "CREATE",
        Procedure::MkDir => "MKDIR",
        Procedure::SymLink => "SYMLINK",
        Procedure::MkNod => "MKNOD",
        Procedure::Remove => "REMOVE",
        Procedure::RmDir => "RMDIR",
        Procedure::Rename => "RENAME",
        Procedure::Link => "LINK",
        Procedure::ReadDir => "READDIR",
        Procedure::ReadDirPlus => "READDIRPLUS",
        Procedure::FsStat => "FSSTAT",
        Procedure::FsInfo => "FSINFO",
        Procedure::PathConf => "PATHCONF",
        Procedure::Commit => "COMMIT",
    }
}

/// The name of a status as RFC 1813 writes it, without `NFS3ERR_` or `MNT3ERR_`.
pub(crate) const fn status_name(status: NfsStatus) -> &'static str {
    match status {
        NfsStatus::Ok => "OK",
        NfsStatus::Perm => "PERM",
        NfsStatus::NoEnt => "NOENT",
        NfsStatus::Io => "IO",
        NfsStatus::NxIo => "NXIO",
        NfsStatus::Acces => "ACCES",
        NfsStatus::Exist => "EXIST",
        NfsStatus::XDev => "XDEV",
        NfsStatus::NoDev => "NODEV",
        NfsStatus::NotDir => "NOTDIR",
        NfsStatus::IsDir => "ISDIR",
        NfsStatus::Inval => "INVAL",
        NfsStatus::FBig => "FBIG",
        NfsStatus::NoSpc => "NOSPC",
        NfsStatus::RoFs => "ROFS",
        NfsStatus::MLink => "MLINK",
        NfsStatus::NameTooLong => "NAMETOOLONG",
        NfsStatus::NotEmpty => "NOTEMPTY",
        NfsStatus::DQuot => "DQUOT",
        NfsStatus::Stale => "STALE",
        NfsStatus::Remote => "REMOTE",
        NfsStatus::BadHandle => "BADHANDLE",
        NfsStatus::NotSync => "NOT_SYNC",
        NfsStatus::BadCookie => "BAD_COOKIE",
        NfsStatus::NotSupp => "NOTSUPP",
        NfsStatus::TooSmall => "TOOSMALL",
        NfsStatus::ServerFault => "SERVERFAULT",
        NfsStatus::BadType => "BADTYPE",
        NfsStatus::JukeBox => "JUKEBOX",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::COUNTER_SETS;

    const TOOK: Duration = Duration::from_micros(6);

    #[test]
    fn every_procedure_has_its_row_under_its_name() {
        let stats = Stats::default();
        stats.count(Procedure::Read, Answer::OK, 8192, TOOK);
        stats.count(Procedure::Read, Answer::Status(NfsStatus::Io), 0, TOOK);
        stats.count_mount(Answer::OK, TOOK);
        let rows = stats.procedures();
        assert_eq!(rows.len(), 23);
        let read = rows["READ"];
        assert_eq!((read.calls, read.errors, read.bytes), (2, 1, 8192));
        assert!((read.latency.unwrap().mean_us - 6.0).abs() < 1e-9);
        assert_eq!(rows["MOUNT"].calls, 1);
        assert_eq!(rows["COMMIT"], ProcedureStats::default());
    }

    #[test]
    fn errors_are_told_apart_by_status() {
        let stats = Stats::default();
        for answer in [Answer::Status(NfsStatus::Stale), Answer::Refused, Answer::Status(NfsStatus::Stale), Answer::OK] {
            stats.count(Procedure::Commit, answer, 0, TOOK);
        }
        let commit = &stats.rows()[Procedure::Commit.number() as usize];
        assert_eq!(commit.errors, [(Some(NfsStatus::Stale), 2), (None, 1)]);
        assert_eq!(commit.stats().calls, 4);
    }

    #[test]
    fn counters_of_others_are_added_whole() {
        let (sums, others) = (Stats::default(), Stats::default());
        for stats in [&sums, &others] {
            stats.count(Procedure::Read, Answer::OK, 100, TOOK);
            stats.count(Procedure::Read, Answer::Status(NfsStatus::Io), 0, TOOK);
            stats.count_cold_read();
        }
        sums.add_all(&others);
        let read = sums.procedures()["READ"];
        assert_eq!((read.calls, read.errors, read.bytes, sums.cold_reads()), (4, 2, 200, 2));
        assert!((read.latency.unwrap().mean_us - 6.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_that_many_threads_count_is_lost() {
        let stats = Stats::default();
        std::thread::scope(|scope| {
            for _ in 0..3 * COUNTER_SETS {
                scope.spawn(|| {
                    for _ in 0..100 {
                        stats.count(Procedure::Write, Answer::OK, 10, TOOK);
                    }
                });
            }
        });
        let calls = 300 * COUNTER_SETS as u64;
        let write = stats.procedures()["WRITE"];
        assert_eq!((write.calls, write.bytes), (calls, 10 * calls));
    }
}
