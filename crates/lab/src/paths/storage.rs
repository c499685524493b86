//! The storage of one run: how it is started, which counters it has, and how it is stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use dnfs::activity::Activity;
use results::compare::{Carried, ProcedureCount, ProofSource, Served};

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::measure::kernel_counters::Interfaces;
use crate::placement::part::Part;
use crate::placement::workdir::WorkDir;
use crate::plan::Tuning;

/// The order to start the storage of one run.
pub(crate) struct StartOrder<'a> {
    /// The copy of this program that the database's user can read.
    pub(crate) program: &'a Path,
    pub(crate) work: &'a WorkDir,
    pub(crate) tuning: &'a Tuning,
    /// Medium to model below the files.
    pub(crate) medium: Option<&'a str>,
    /// Number of the run, for the names of logs.
    pub(crate) sequence: u32,
}

/// The running storage of one run. Dropping it ends its processes.
pub(crate) trait Storage {
    /// Command that is put before a program so that it finds its files: `millrace exec … --`, or empty.
    fn command_prefix(&self) -> &[OsString];

    /// Called after the start of the database: opens the state that it shares with its clients, finds the servers of existing storage.
    fn database_started(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// Whether a modelled medium delays calls of the database's process; the kernel's own queues cannot be delayed.
    fn delays_calls(&self) -> bool {
        false
    }

    /// The counter that is compared with the database's own reads.
    fn proof_source(&self) -> ProofSource;

    /// Network interfaces of its traffic; `None` if no traffic leaves the database's host.
    fn interfaces(&self) -> Option<Interfaces> {
        None
    }

    /// Pid of each serving process, with its part.
    fn servers(&self) -> Vec<(Part, u32)> {
        Vec::new()
    }

    /// Client processes besides the database; their processor time is added to the database's.
    fn clients(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Serving processes that Millrace did not start, if they run on this host and can be found.
    fn other_servers(&self) -> Vec<u32> {
        Vec::new()
    }

    /// What serves existing storage besides disks of this host, for the record; `None` if nothing does, or if it is Millrace's own.
    fn served(&self) -> Option<Served> {
        None
    }

    /// Whether threads of the kernel do the work of the comparison's processes on other paths; then their processor time is counted.
    fn works_in_kernel(&self) -> bool {
        false
    }

    /// An error if a serving process has ended, or has not been reachable for a while.
    fn expect_alive(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// The same for a caller with an error that this may explain: may wait until the result is certain.
    fn expect_alive_after_all(&mut self) -> Result<(), LabError> {
        self.expect_alive()
    }

    /// Counters of servers and clients since their start.
    fn counters(&self) -> Result<StorageCounters, LabError> {
        Ok(StorageCounters::default())
    }

    /// Bytes read on the path since its start, counted by its proof source.
    fn reads(&self, database: &mut Server) -> Result<Reads, LabError>;

    /// Counters of the modelled media, for all volumes together; `None` without a modelled medium.
    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError>;

    /// Stops it cleanly.
    fn stop(self: Box<Self>) -> Result<(), LabError> {
        Ok(())
    }
}

/// Counters of a path's servers and clients since their start.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageCounters {
    /// Calls answered by Millrace's servers, summed over all.
    pub(crate) server_calls: BTreeMap<String, ProcedureCount>,
    /// Durability of Millrace's servers, as the first one reports it; all have the same options. `None` without a server.
    pub(crate) durability: Option<String>,
    /// Open connections to Millrace's servers of the data; `None` without a server.
    pub(crate) connections: Option<u64>,
    /// Calls of Millrace's client, for all volumes together.
    pub(crate) client_calls: BTreeMap<String, ProcedureCount>,
    /// Activity of Millrace's clients, one entry for each volume, the data's first.
    pub(crate) client_activity: Vec<Activity>,
    /// Slots of the kernel's client for the data; `None` on other paths.
    pub(crate) kernel_slots: Option<KernelSlots>,
    /// Traffic of the path as counted by the kernel below its page cache; `None` on other paths.
    pub(crate) carried: Option<Carried>,
}

/// Slots of a client in the kernel, since it was mounted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelSlots {
    /// Maximum number of slots of all connections together.
    pub(crate) limit: u32,
    /// Largest number of slots in use at the same time, summed over all connections.
    pub(crate) most: u32,
    pub(crate) calls: u64,
    /// Milliseconds that calls waited before they were sent.
    pub(crate) queue_ms: u64,
    /// Milliseconds from their sending to their reply.
    pub(crate) reply_ms: u64,
}

/// Bytes read on a path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reads {
    /// From each volume; empty if they are not counted separately.
    pub(crate) by_volume: Vec<(Part, u64)>,
    /// Of the data; `None` if not counted.
    pub(crate) of_data: Option<u64>,
}

impl Reads {
    /// Sums the reads of the data from those of each volume.
    pub(crate) fn of_volumes(by_volume: Vec<(Part, u64)>) -> Self {
        let data = by_volume.iter().filter(|(part, _)| part.holds_data()).map(|(_, bytes)| bytes).sum();
        Self { by_volume, of_data: Some(data) }
    }
}

/// Adds calls to the counts of a procedure.
pub(crate) fn add_calls(counts: &mut BTreeMap<String, ProcedureCount>, name: &str, more: &ProcedureCount) {
    let all = counts.entry(name.to_owned()).or_default();
    all.calls += more.calls;
    all.bytes += more.bytes;
}
