//! Counters of a LUN, and of each initiator that uses it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::Unpoisoned;

use crate::latency::{Counted, Latencies};
use crate::limits::LUN_INITIATORS_COUNTED_MAX;
use crate::sharded::Sharded;

/// The kind as which a command is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Read,
    Write,
    /// SYNCHRONIZE CACHE.
    Flush,
    /// UNMAP, and WRITE SAME with the UNMAP bit.
    Unmap,
    Other,
}

impl Operation {
    pub(crate) const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Flush, Self::Unmap, Self::Other];

    /// Its name in metrics, commands and faults.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Unmap => "unmap",
            Self::Other => "other",
        }
    }
}

/// Counters of one kind of command.
#[derive(Debug, Default)]
struct Row {
    errors: AtomicU64,
    bytes: AtomicU64,
    latencies: Latencies,
}

#[derive(Debug, Default)]
struct Rows([Row; Operation::ALL.len()]);

/// The counters of a LUN.
#[derive(Debug, Default)]
pub(crate) struct LunStats {
    rows: Sharded<Rows>,
    initiators: Mutex<BTreeMap<String, Arc<InitiatorStats>>>,
}

/// The counters of an initiator at a LUN.
#[derive(Debug, Default)]
pub(crate) struct InitiatorStats {
    commands: AtomicU64,
    bytes: AtomicU64,
}

/// Counters of one kind of command at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedRow {
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
    pub(crate) latencies: Counted,
}

impl LunStats {
    /// Counts a command that has ended. `bytes`: the payload of a read or write.
    pub(crate) fn count(&self, of: &InitiatorStats, operation: Operation, good: bool, bytes: u64, took: Duration) {
        of.commands.fetch_add(1, Ordering::Relaxed);
        of.bytes.fetch_add(bytes, Ordering::Relaxed);
        let Some(row) = self.rows.own().and_then(|rows| rows.0.get(operation as usize)) else { return };
        row.bytes.fetch_add(bytes, Ordering::Relaxed);
        row.latencies.add(took);
        if !good {
            row.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counters of an initiator. Initiators beyond the limit share counters with an empty name.
    pub(crate) fn of(&self, initiator: &str) -> Arc<InitiatorStats> {
        let mut initiators = self.initiators.lock().unpoisoned();
        let full = initiators.len() >= LUN_INITIATORS_COUNTED_MAX && !initiators.contains_key(initiator);
        let name = if full { "" } else { initiator };
        Arc::clone(initiators.entry(name.to_owned()).or_default())
    }

    /// The counters by kind of command.
    pub(crate) fn rows(&self) -> [(Operation, CountedRow); Operation::ALL.len()] {
        Operation::ALL.map(|operation| {
            let mut sum = CountedRow::default();
            for row in self.rows.each().filter_map(|rows| rows.0.get(operation as usize)) {
                sum.errors += row.errors.load(Ordering::Relaxed);
                sum.bytes += row.bytes.load(Ordering::Relaxed);
                row.latencies.add_to(&mut sum.latencies);
            }
            (operation, sum)
        })
    }

    /// Commands and bytes of each initiator.
    pub(crate) fn initiators(&self) -> Vec<(String, u64, u64)> {
        let initiators = self.initiators.lock().unpoisoned();
        let counted = |(name, of): (&String, &Arc<InitiatorStats>)| {
            (name.clone(), of.commands.load(Ordering::Relaxed), of.bytes.load(Ordering::Relaxed))
        };
        initiators.iter().map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_counted_by_kind_and_by_initiator_and_initiators_are_bounded() {
        let stats = LunStats::default();
        let took = Duration::from_micros(20);
        stats.count(&stats.of("a"), Operation::Read, true, 8192, took);
        stats.count(&stats.of("a"), Operation::Read, false, 0, took);
        for n in 0..2 * LUN_INITIATORS_COUNTED_MAX {
            stats.count(&stats.of(&format!("iqn{n}")), Operation::Flush, true, 0, took);
        }
        let rows = stats.rows();
        let (_, reads) = &rows[0];
        assert_eq!((reads.latencies.count(), reads.errors, reads.bytes), (2, 1, 8192));
        let initiators = stats.initiators();
        assert_eq!(initiators.len(), LUN_INITIATORS_COUNTED_MAX + 1);
        assert!(initiators.contains(&("a".into(), 2, 8192)));
        let all: u64 = initiators.iter().map(|(_, commands, _)| commands).sum();
        assert_eq!(all, 2 + 2 * LUN_INITIATORS_COUNTED_MAX as u64);
    }
}
