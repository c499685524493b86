//! The laboratory's own session: counters, sizes and wait events, with one interface for all databases.
//!
//! A session has its own small runtime that runs only during a query, so that it costs the host
//! nothing between samples.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use results::compare::DatabaseCounters;

use crate::error::LabError;
use crate::host::interrupt;

/// A session that reads values of the complete server.
pub(crate) trait Session {
    /// Reads all counters.
    fn counters(&mut self) -> Result<DatabaseCounters, LabError>;

    /// Ends background work that would report its reads only much later. Returns the number of other sessions.
    fn others(&mut self) -> Result<u64, LabError>;

    /// Samples the current activity of the sessions.
    fn sample_waits(&mut self, samples: &mut WaitSamples) -> Result<(), LabError>;

    /// Brings the loaded tables into a stable state: statistics exist, and no cleanup remains to be done.
    fn settle(&mut self) -> Result<(), LabError>;

    /// Spreads tables and indexes over `shares` volumes; `place` returns the directory of each further one.
    fn spread(&mut self, shares: u32, place: &dyn Fn(u32) -> Result<PathBuf, LabError>) -> Result<(), LabError>;

    /// Pid of a server process that reads files but no blocks of tables; `None` if there is no such process.
    fn reader_of_other_files(&mut self) -> Result<Option<u32>, LabError> {
        Ok(None)
    }

    /// Size of the loaded database in bytes.
    fn database_bytes(&mut self) -> Result<u64, LabError>;

    /// Upper limit of the sessions that the server itself starts within `elapsed`.
    fn own_starts(&mut self, _elapsed: Duration) -> Result<u64, LabError> {
        Ok(0)
    }

    /// Bytes that a session reads at its start, not counted as block reads.
    fn session_start_bytes(&mut self) -> Result<u64, LabError> {
        Ok(0)
    }

    /// Block size in bytes.
    fn block_bytes(&mut self) -> Result<u64, LabError>;

    /// The server's version string.
    fn server_version(&mut self) -> Result<String, LabError>;

    /// Settings that differ from their built-in values, without directories and sockets.
    fn changed_settings(&mut self) -> Result<BTreeMap<String, String>, LabError>;
}

/// Reads the counters after every other session has ended, so that they are complete. Waits at most `limit` for that.
pub(crate) fn settled_counters(session: &mut dyn Session, limit: Duration) -> Result<DatabaseCounters, LabError> {
    let mut last: Option<DatabaseCounters> = None;
    let settled = interrupt::wait_for(limit, || {
        let busy = session.others()?;
        let now = session.counters()?;
        let same = last.as_ref().is_some_and(|before| before.blocks_read == now.blocks_read);
        last = Some(now.clone());
        if busy == 0 && same {
            Ok(Some(now))
        } else {
            std::thread::sleep(Duration::from_millis(100));
            Ok(None)
        }
    })?;
    match (settled, last) {
        (Some(counters), _) | (None, Some(counters)) => Ok(counters),
        (None, None) => session.counters(),
    }
}

/// Samples of the sessions' activity.
#[derive(Debug, Default)]
pub(crate) struct WaitSamples {
    /// Wait events: event name to number of sessions. A session that does not wait counts as `running`.
    pub(crate) waits: BTreeMap<String, u64>,
    /// Number of samples.
    count: u64,
    /// Number of samples with a running autovacuum.
    with_vacuum: u64,
}

impl WaitSamples {
    /// Adds a sample: events with their number of sessions, and whether an autovacuum was running.
    pub(crate) fn add(&mut self, events: impl IntoIterator<Item = (String, u64)>, vacuum: bool) {
        for (event, sessions) in events {
            *self.waits.entry(event).or_default() += sessions;
        }
        self.count += 1;
        self.with_vacuum += u64::from(vacuum);
    }

    /// Share of the samples with a running autovacuum, 0 to 1.
    pub(crate) fn vacuum_share(&self) -> f64 {
        self.with_vacuum as f64 / self.count.max(1) as f64
    }
}

/// The difference between two readings. A counter that decreased (statistics were reset) gives 0.
/// Blocks that only extended a file are subtracted from the reads.
pub(crate) fn between(before: &DatabaseCounters, after: &DatabaseCounters) -> DatabaseCounters {
    let blocks_extended = after.blocks_extended.saturating_sub(before.blocks_extended);
    DatabaseCounters {
        blocks_extended,
        blocks_read: after.blocks_read.saturating_sub(before.blocks_read).saturating_sub(blocks_extended),
        blocks_hit: after.blocks_hit.saturating_sub(before.blocks_hit),
        block_read_ms: (after.block_read_ms - before.block_read_ms).max(0.0),
        block_write_ms: (after.block_write_ms - before.block_write_ms).max(0.0),
        blocks_written: after.blocks_written.saturating_sub(before.blocks_written),
        log_bytes: after.log_bytes.saturating_sub(before.log_bytes),
        log_syncs: after.log_syncs.saturating_sub(before.log_syncs),
        log_sync_ms: (after.log_sync_ms - before.log_sync_ms).max(0.0),
        checkpoints: after.checkpoints.saturating_sub(before.checkpoints),
        commits: after.commits.saturating_sub(before.commits),
        rollbacks: after.rollbacks.saturating_sub(before.rollbacks),
        deadlocks: after.deadlocks.saturating_sub(before.deadlocks),
        checksum_failures: after.checksum_failures.saturating_sub(before.checksum_failures),
        log_segments_archived: after.log_segments_archived.saturating_sub(before.log_segments_archived),
        log_archive_failures: after.log_archive_failures.saturating_sub(before.log_archive_failures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_subtracts_and_never_wraps() {
        let before = DatabaseCounters { blocks_read: 10, block_read_ms: 2.0, ..Default::default() };
        let after = DatabaseCounters { blocks_read: 25, block_read_ms: 5.5, ..Default::default() };
        let gained = between(&before, &after);
        assert_eq!(gained.blocks_read, 15);
        assert!((gained.block_read_ms - 3.5).abs() < 1e-9);
        assert_eq!(between(&after, &before), DatabaseCounters::default());
        let grown = DatabaseCounters { blocks_extended: 4, ..after };
        assert_eq!(between(&before, &grown).blocks_read, 11);
    }
}
