//! LUNs at work: file systems that are mounted, and the filers below.

use std::ffi::OsString;

use results::compare::{ProcedureCount, ProofSource};

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::attached_lun::AttachedLun;
use crate::host::procfs;
use crate::measure::kernel_counters::Interfaces;
use crate::paths::filer::Filer;
use crate::paths::medium;
use crate::paths::storage::{Reads, Storage, StorageCounters, add_calls};
use crate::placement::part::Part;

/// The storage of one run.
#[derive(Default)]
pub(super) struct IscsiStorage {
    /// Dropped before the filers, so that no file system waits for one that is gone.
    luns: Vec<AttachedLun>,
    filers: Vec<(Part, Filer)>,
}

impl IscsiStorage {
    pub(super) fn push(&mut self, part: Part, lun: AttachedLun, filer: Filer) {
        self.luns.push(lun);
        self.filers.push((part, filer));
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
        self.filers.iter().map(|(part, filer)| (*part, filer.pid())).collect()
    }

    fn clients(&self) -> Vec<u32> {
        self.luns.iter().flat_map(AttachedLun::pids).copied().collect()
    }

    fn expect_alive(&mut self) -> Result<(), LabError> {
        self.filers.iter_mut().try_for_each(|(_, filer)| filer.expect_alive())?;
        self.luns.iter().try_for_each(AttachedLun::expect_alive)
    }

    fn counters(&self) -> Result<StorageCounters, LabError> {
        let mut all = StorageCounters::default();
        for (part, filer) in &self.filers {
            let stats = filer.stats()?;
            if part.holds_data() {
                all.connections = Some(all.connections.unwrap_or(0) + stats.connections);
            }
            all.durability.get_or_insert(stats.durability);
            for (name, count) in stats.procedures.iter().chain(&stats.scsi) {
                add_calls(&mut all.server_calls, name, &ProcedureCount { calls: count.calls, bytes: count.bytes });
            }
        }
        Ok(all)
    }

    fn reads(&self, database: &mut Server) -> Result<Reads, LabError> {
        // The archiver copies log segments; it reads no block.
        let archiver = database.session().reader_of_other_files()?;
        Ok(Reads { by_volume: Vec::new(), of_data: procfs::tree_read_bytes(database.pid(), archiver) })
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        let mut all = None;
        for (_, filer) in &self.filers {
            all = medium::add(all, medium::of_filer(&filer.stats()?));
        }
        Ok(all)
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self { luns, filers } = *self;
        luns.into_iter().try_for_each(AttachedLun::detach)?;
        filers.into_iter().try_for_each(|(_, filer)| filer.stop())
    }
}
