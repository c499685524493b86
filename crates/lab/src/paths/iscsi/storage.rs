//! LUNs at work: file systems that are mounted, and the filers below.

use std::ffi::OsString;

use results::compare::ProofSource;

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::host::attached_lun::AttachedLun;
use crate::host::procfs;
use crate::measure::kernel_counters::Interfaces;
use crate::paths::filer::Filer;
use crate::paths::filers;
use crate::paths::storage::{Reads, Storage, StorageCounters};
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
        filers::pids(&self.filers)
    }

    fn clients(&self) -> Vec<u32> {
        self.luns.iter().flat_map(AttachedLun::pids).copied().collect()
    }

    fn expect_alive(&mut self) -> Result<(), LabError> {
        filers::expect_alive(&mut self.filers)?;
        self.luns.iter().try_for_each(AttachedLun::expect_alive)
    }

    fn counters(&self) -> Result<StorageCounters, LabError> {
        let mut all = StorageCounters::default();
        filers::count(&self.filers, &mut all)?;
        Ok(all)
    }

    fn reads(&self, database: &mut Server) -> Result<Reads, LabError> {
        // The archiver copies log segments; it reads no block.
        let archiver = database.session().reader_of_other_files()?;
        Ok(Reads { by_volume: Vec::new(), of_data: procfs::tree_read_bytes(database.pid(), archiver) })
    }

    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError> {
        filers::medium_counters(&self.filers)
    }

    fn stop(self: Box<Self>) -> Result<(), LabError> {
        let Self { luns, filers } = *self;
        luns.into_iter().try_for_each(AttachedLun::detach)?;
        filers.into_iter().try_for_each(|(_, filer)| filer.stop())
    }
}
