//! The laboratory's own session: counters, sizes, waits, the same of every database.
//!
//! A session runs on a small runtime of its own that only turns while a question is asked, so that between samples it costs
//! the host nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use results::compare::DatabaseCounters;

use crate::error::LabError;
use crate::host::interrupt;

/// A session that answers questions about the whole server.
pub(crate) trait Session {
    /// All counters now.
    fn counters(&mut self) -> Result<DatabaseCounters, LabError>;

    /// Ends background work that would report what it read only much later, and tells how many other sessions there are.
    fn others(&mut self) -> Result<u64, LabError>;

    /// Looks at what the sessions do now.
    fn sample_waits(&mut self, samples: &mut WaitSamples) -> Result<(), LabError>;

    /// Brings the loaded tables into a state of rest: statistics are there, nothing is left to be cleaned.
    fn settle(&mut self) -> Result<(), LabError>;

    /// Spreads tables and indexes over so many volumes, the further ones at the directories that `place` names.
    fn spread(&mut self, shares: u32, place: &dyn Fn(u32) -> Result<PathBuf, LabError>) -> Result<(), LabError>;

    /// Pid of a process of the server that reads files and no block of a table; none without one.
    fn reader_of_other_files(&mut self) -> Result<Option<u32>, LabError> {
        Ok(None)
    }

    /// Size of the loaded database in bytes.
    fn database_bytes(&mut self) -> Result<u64, LabError>;

    /// Sessions of the server's own that begin within `elapsed`, at most.
    fn own_starts(&mut self, _elapsed: Duration) -> Result<u64, LabError> {
        Ok(0)
    }

    /// Bytes that a session reads when it begins, outside the buffers.
    fn session_start_bytes(&mut self) -> Result<u64, LabError> {
        Ok(0)
    }

    /// Block size in bytes.
    fn block_bytes(&mut self) -> Result<u64, LabError>;

    /// The server's version in words.
    fn server_version(&mut self) -> Result<String, LabError>;

    /// Settings that do not have their built-in value, places and sockets apart.
    fn changed_settings(&mut self) -> Result<BTreeMap<String, String>, LabError>;
}

/// Counters once every other session has ended: nothing is missing then. Waits at most `limit` for that.
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

/// What was seen of the sessions at several moments.
#[derive(Debug, Default)]
pub(crate) struct WaitSamples {
    /// What clients waited for: event name to number of sessions. One that waits for nothing counts under `running`.
    pub(crate) waits: BTreeMap<String, u64>,
    /// Moments.
    count: u64,
    /// Those at which an autovacuum was at work.
    with_vacuum: u64,
}

impl WaitSamples {
    /// Takes what the sessions did at one moment: event and number of sessions; and whether an autovacuum was at work.
    pub(crate) fn add(&mut self, events: impl IntoIterator<Item = (String, u64)>, vacuum: bool) {
        for (event, sessions) in events {
            *self.waits.entry(event).or_default() += sessions;
        }
        self.count += 1;
        self.with_vacuum += u64::from(vacuum);
    }

    /// Share of the moments at which an autovacuum was at work, 0 to 1.
    pub(crate) fn vacuum_share(&self) -> f64 {
        self.with_vacuum as f64 / self.count.max(1) as f64
    }
}

/// What happened between two readings. A counter that fell (statistics were reset) gives 0.
/// Blocks that only extended a file are taken out of the reads.
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
