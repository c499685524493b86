//! Storage of the path iscsi during a run: mounted file systems on LUNs, and their filers.

use std::ffi::OsString;

use results::compare::{Carried, ProofSource};

use super::client::Attached;
use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::block_device::DiskStats;
use crate::measure::kernel_counters::Interfaces;
use crate::measure::proof::DISKSTATS;
use crate::paths::filer::Filer;
use crate::paths::filers;
use crate::paths::storage::{KernelSlots, Reads, Storage, StorageCounters};
use crate::placement::part::Part;

/// The storage of one run.
pub(super) struct IscsiStorage {
    /// Dropped before the filers, so that no file system waits for a filer that is gone.
    luns: Vec<Attached>,
    filers: Vec<(Part, Filer)>,
    /// Limit of the commands in flight on each path of a LUN.
    depth: u32,
}

impl IscsiStorage {
    pub(super) fn new(depth: u32) -> Self {
        Self { luns: Vec::new(), filers: Vec::new(), depth }
    }

    pub(super) fn push(&mut self, part: Part, lun: Attached, filer: Filer) {
        self.luns.push(lun);
        self.filers.push((part, filer));
    }
}

/// The queues of a LUN's disks: the kernel counts the time of a request from its entry into a queue, which may be longer than
/// the limit of the commands in flight.
fn slots((stats, paths): (DiskStats, u32), depth: u32) -> KernelSlots {
    KernelSlots { limit: depth * paths, most: 0, calls: stats.requests, queue_ms: 0, reply_ms: stats.request_ms }
}

/// Traffic of all disks and all filers.
fn carried(disks: DiskStats, filers: &StorageCounters) -> Carried {
    let server = |command: &str| Some(filers.server_calls.get(command).map_or(0, |count| count.bytes));
    Carried {
        source: DISKSTATS.to_owned(),
        read_bytes: disks.read_bytes,
        written_bytes: disks.written_bytes,
        server_read_bytes: server("SCSI-READ"),
        server_written_bytes: server("SCSI-WRITE"),
    }
}

impl Storage for IscsiStorage {
    fn command_prefix(&self) -> &[OsString] {
        &[]
    }

    fn proof_source(&self) -> ProofSource {
        ProofSource::ReadCalls
    }

    fn interfaces(&self) -> Option<Interfaces> {
        Some(Interfaces::Loopback)
    }

    fn servers(&self) -> Vec<(Part, u32)> {
        filers::pids(&self.filers)
    }

    fn clients(&self) -> Vec<u32> {
        self.luns.iter().flat_map(Attached::pids).copied().collect()
    }

    fn expect_alive(&mut self) -> Result<(), LabError> {
        filers::expect_alive(&mut self.filers)?;
        self.luns.iter().try_for_each(Attached::expect_alive)
    }

    fn counters(&self) -> Result<StorageCounters, LabError> {
        let mut all = StorageCounters::default();
        filers::count(&self.filers, &mut all)?;
        let stats = self.luns.iter().map(Attached::disk_stats).collect::<Result<Vec<_>, _>>()?;
        // The data's LUNs come first.
        let first = self.luns.first().and_then(Attached::paths).zip(stats.first());
        all.kernel_slots = first.map(|(paths, stats)| slots((*stats, paths), self.depth));
        all.carried = Some(carried(stats.into_iter().sum(), &all));
        Ok(all)
    }

    fn reads(&self, database: &mut Server) -> Result<Reads, LabError> {
        Ok(Reads { by_volume: Vec::new(), of_data: database.bytes_from_read_calls()? })
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        filers::medium_counters(&self.filers)
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self { luns, filers, .. } = *self;
        luns.into_iter().try_for_each(Attached::detach)?;
        filers.into_iter().try_for_each(|(_, filer)| filer.stop())
    }
}
