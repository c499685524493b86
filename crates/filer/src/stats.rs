//! Counters of the filer: one set of atomics per procedure, no locks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use nfs_proto::nfs3::Procedure;
use results::filer_stats::ProcedureStats;

/// NFS procedures and one row for MOUNT.
const ROWS: usize = Procedure::ALL.len() + 1;
const MOUNT_ROW: usize = ROWS - 1;

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Stats {
    rows: [Row; ROWS],
    cold_reads: AtomicU64,
}

/// A row on a cache line of its own, so that readers and writers on two cores do not share one.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    calls: AtomicU64,
    errors: AtomicU64,
    bytes: AtomicU64,
}

impl Stats {
    /// Counts an answered NFS call; `bytes` is the payload of READ and WRITE.
    pub(crate) fn count(&self, procedure: Procedure, ok: bool, bytes: u64) {
        self.add(procedure.number() as usize, ok, bytes);
    }

    /// Counts an answered MOUNT call.
    pub(crate) fn count_mount(&self, ok: bool) {
        self.add(MOUNT_ROW, ok, 0);
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

    /// A call that was counted as done failed before its reply left.
    pub(crate) fn count_failed_late(&self, procedure: Procedure) {
        if let Some(row) = self.rows.get(procedure.number() as usize) {
            row.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn add(&self, row: usize, ok: bool, bytes: u64) {
        let Some(row) = self.rows.get(row) else { return };
        row.calls.fetch_add(1, Ordering::Relaxed);
        if !ok {
            row.errors.fetch_add(1, Ordering::Relaxed);
        }
        if bytes > 0 {
            row.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Adds what others counted.
    pub(crate) fn add_all(&self, others: &Self) {
        let add = |to: &AtomicU64, from: &AtomicU64| to.fetch_add(from.load(Ordering::Relaxed), Ordering::Relaxed);
        for (row, more) in self.rows.iter().zip(&others.rows) {
            add(&row.calls, &more.calls);
            add(&row.errors, &more.errors);
            add(&row.bytes, &more.bytes);
        }
        add(&self.cold_reads, &others.cold_reads);
    }

    /// The counters by name.
    #[must_use]
    pub fn procedures(&self) -> BTreeMap<String, ProcedureStats> {
        let names = Procedure::ALL.iter().map(|&procedure| name(procedure)).chain(["MOUNT"]);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let rows = self.rows.iter().map(|row| ProcedureStats {
            calls: load(&row.calls),
            errors: load(&row.errors),
            bytes: load(&row.bytes),
        });
        names.map(str::to_owned).zip(rows).collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_procedure_has_its_row_under_its_name() {
        let stats = Stats::default();
        stats.count(Procedure::Read, true, 8192);
        stats.count(Procedure::Read, false, 0);
        stats.count_mount(true);
        let rows = stats.procedures();
        assert_eq!(rows.len(), 23);
        assert_eq!(rows["READ"], ProcedureStats { calls: 2, errors: 1, bytes: 8192 });
        assert_eq!(rows["MOUNT"].calls, 1);
        assert_eq!(rows["COMMIT"].calls, 0);
    }
}
