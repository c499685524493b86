//! Storage of the path knfs during a run: the kernel's mounts of Millrace's filers, and the counters of client and filers.

use std::ffi::OsString;

use results::compare::{Carried, ProcedureCount, ProofSource};

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::kernel_mount::KernelMount;
use crate::host::mountstats::MountStats;
use crate::measure::kernel_counters::Interfaces;
use crate::paths::filer::Filer;
use crate::paths::filers;
use crate::paths::storage::{KernelSlots, Reads, Storage, StorageCounters, add_calls};
use crate::placement::part::Part;

/// The storage of one run.
pub(super) struct KnfsStorage {
    /// Dropped before the filers, so that no mount waits for a filer that is gone.
    pub(super) mounts: Vec<(Part, KernelMount)>,
    pub(super) filers: Vec<(Part, Filer)>,
    /// Maximum number of slots of each connection; 0 if the kernel does not report it.
    pub(super) slots: u32,
}

impl KnfsStorage {
    fn stats(&self) -> Result<Vec<(Part, MountStats)>, LabError> {
        self.mounts.iter().map(|(part, mount)| Ok((*part, MountStats::of(mount.point())?))).collect()
    }

    /// Slots of the mount with the data, or of its first share, which comes first.
    fn slots_of(&self, stats: &MountStats) -> KernelSlots {
        let sum = |pick: fn(&crate::host::mountstats::Operation) -> u64| stats.operations.values().map(pick).sum();
        let connections = u32::try_from(stats.slots_most.len()).unwrap_or(1).max(1);
        KernelSlots {
            limit: self.slots.saturating_mul(connections),
            most: stats.slots_most.iter().sum(),
            calls: sum(|operation| operation.calls),
            queue_ms: sum(|operation| operation.queue_ms),
            reply_ms: sum(|operation| operation.reply_ms),
        }
    }
}

/// Traffic of all mounts and all filers.
fn carried(stats: &[(Part, MountStats)], filers: &StorageCounters) -> Carried {
    let server = |procedure: &str| Some(filers.server_calls.get(procedure).map_or(0, |count| count.bytes));
    Carried {
        source: "mountstats".to_owned(),
        read_bytes: stats.iter().map(|(_, stats)| stats.received_bytes).sum(),
        written_bytes: stats.iter().map(|(_, stats)| stats.sent_bytes).sum(),
        server_read_bytes: server("READ"),
        server_written_bytes: server("WRITE"),
    }
}

impl Storage for KnfsStorage {
    fn command_prefix(&self) -> &[OsString] {
        &[]
    }

    fn proof_source(&self) -> ProofSource {
        ProofSource::MountReads
    }

    fn interfaces(&self) -> Option<Interfaces> {
        Some(Interfaces::Loopback)
    }

    fn servers(&self) -> Vec<(Part, u32)> {
        filers::pids(&self.filers)
    }

    fn expect_alive(&mut self) -> Result<(), LabError> {
        filers::expect_alive(&mut self.filers)
    }

    fn counters(&self) -> Result<StorageCounters, LabError> {
        let (mut all, stats) = (StorageCounters::default(), self.stats()?);
        filers::count(&self.filers, &mut all)?;
        for (_, mount) in &stats {
            for (name, operation) in &mount.operations {
                let bytes = match name.as_str() {
                    "READ" => mount.received_bytes,
                    "WRITE" => mount.sent_bytes,
                    _ => 0,
                };
                add_calls(&mut all.client_calls, name, &ProcedureCount { calls: operation.calls, bytes });
            }
        }
        all.kernel_slots = stats.first().filter(|_| self.slots > 0).map(|(_, stats)| self.slots_of(stats));
        all.carried = Some(carried(&stats, &all));
        Ok(all)
    }

    fn reads(&self, _database: &mut Server) -> Result<Reads, LabError> {
        Ok(Reads::of_volumes(self.stats()?.into_iter().map(|(part, stats)| (part, stats.read_by_calls)).collect()))
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        filers::medium_counters(&self.filers)
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self { mounts, filers, .. } = *self;
        mounts.into_iter().try_for_each(|(_, mount)| mount.unmount())?;
        filers.into_iter().try_for_each(|(_, filer)| filer.stop())
    }
}
