//! Traffic of a path: reads, writes and their bytes, by the counter closest to the storage, and the flushes of the log.

use results::compare::{Run, Traffic, TrafficSource};

/// Names of READ and WRITE calls in the counts of a server or a client: NFS, SCSI.
const READS: [&str; 2] = ["READ", "SCSI-READ"];
const WRITES: [&str; 2] = ["WRITE", "SCSI-WRITE"];

const MIB: f64 = (1 << 20) as f64;

/// Calls and bytes.
#[derive(Clone, Copy, Default)]
struct Sum {
    calls: u64,
    bytes: u64,
}

/// Traffic over the measured intervals of all runs; `None` if nothing was measured.
pub(crate) fn of(runs: &[Run], block_bytes: u64) -> Option<Traffic> {
    let seconds: f64 = runs.iter().map(|run| run.measured_s).sum();
    if seconds <= 0.0 {
        return None;
    }
    let (source, reads, writes) = counted(runs, block_bytes);
    let of = |pick: fn(&Run) -> u64| -> u64 { runs.iter().map(pick).sum() };
    let flushes = of(|run| run.database.log_syncs);
    let flush_ms: f64 = runs.iter().map(|run| run.database.log_sync_ms).sum();
    Some(Traffic {
        source,
        seconds,
        reads: reads.calls,
        read_bytes: reads.bytes,
        writes: writes.calls,
        written_bytes: writes.bytes,
        reads_per_s: reads.calls as f64 / seconds,
        read_mib_per_s: reads.bytes as f64 / MIB / seconds,
        writes_per_s: writes.calls as f64 / seconds,
        written_mib_per_s: writes.bytes as f64 / MIB / seconds,
        log_flushes: flushes,
        log_flushes_per_s: flushes as f64 / seconds,
        log_flush_ms: (flushes > 0 && flush_ms > 0.0).then(|| flush_ms / flushes as f64),
    })
}

/// The component that counted, reads and writes.
fn counted(runs: &[Run], block_bytes: u64) -> (TrafficSource, Sum, Sum) {
    let named = |names: [&str; 2], counts: fn(&Run) -> &std::collections::BTreeMap<String, results::compare::ProcedureCount>| {
        let found = runs.iter().flat_map(counts).filter(|(name, _)| names.contains(&name.as_str()));
        found.fold(Sum::default(), |sum, (_, count)| Sum { calls: sum.calls + count.calls, bytes: sum.bytes + count.bytes })
    };
    if runs.iter().any(|run| !run.filer.is_empty()) {
        return (TrafficSource::Filer, named(READS, |run| &run.filer), named(WRITES, |run| &run.filer));
    }
    if runs.iter().any(|run| !run.client.is_empty()) {
        return (TrafficSource::Client, named(READS, |run| &run.client), named(WRITES, |run| &run.client));
    }
    let (mut reads, mut writes) = (Sum::default(), Sum::default());
    for database in runs.iter().map(|run| &run.database) {
        reads.calls += database.blocks_read;
        reads.bytes += database.blocks_read * block_bytes;
        // The log is written once for each flush.
        writes.calls += database.blocks_written + database.log_syncs;
        writes.bytes += database.blocks_written * block_bytes + database.log_bytes;
    }
    (TrafficSource::Database, reads, writes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use results::compare::{DatabaseCounters, ProcedureCount};

    use super::*;

    fn run(filer: &[(&str, u64, u64)]) -> Run {
        let database = DatabaseCounters {
            blocks_read: 100,
            blocks_written: 40,
            log_bytes: 1 << 20,
            log_syncs: 20,
            log_sync_ms: 30.0,
            ..DatabaseCounters::default()
        };
        let filer =
            filer.iter().map(|(name, calls, bytes)| ((*name).to_owned(), ProcedureCount { calls: *calls, bytes: *bytes }));
        Run { measured_s: 2.0, database, filer: filer.collect::<BTreeMap<_, _>>(), ..Run::default() }
    }

    #[test]
    fn what_crossed_is_the_filers_count_where_one_served_and_else_the_databases() {
        let served = of(&[run(&[("SCSI-READ", 10, 4 << 20), ("SCSI-WRITE", 6, 2 << 20), ("SCSI-FLUSH", 3, 0)])], 8192).unwrap();
        assert_eq!((served.source, served.reads, served.writes), (TrafficSource::Filer, 10, 6));
        assert_eq!((served.read_mib_per_s, served.written_mib_per_s, served.reads_per_s), (2.0, 1.0, 5.0));
        assert_eq!((served.log_flushes_per_s, served.log_flush_ms), (10.0, Some(1.5)));
        let local = of(&[run(&[]), run(&[])], 8192).unwrap();
        assert_eq!((local.source, local.reads, local.read_bytes), (TrafficSource::Database, 200, 200 * 8192));
        assert_eq!((local.writes, local.written_bytes), (120, 80 * 8192 + (2 << 20)));
        assert_eq!(of(&[], 8192), None);
    }
}
