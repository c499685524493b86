//! The storage of one run: how it is started, what it counts, and how it is stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use dnfs::activity::Activity;
use results::compare::{Carried, ProcedureCount, ProofSource};

use crate::database::cluster::Server;
use crate::error::LabError;
use crate::measure::kernel_counters::Interfaces;
use crate::placement::part::Part;
use crate::placement::workdir::WorkDir;
use crate::plan::Tuning;

/// How the storage of one run is to be started.
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

/// The storage of one run, at work. Dropping it ends its processes.
pub(crate) trait Storage {
    /// Put before a program so that it finds its files: `millrace exec … --`, or nothing.
    fn command_prefix(&self) -> &[OsString];

    /// The database has started: what it shares with its clients can be opened now.
    fn database_started(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// Whether calls of the database's process are delayed as a modelled medium would; the kernel's own queues cannot be.
    fn delays_calls(&self) -> bool {
        false
    }

    /// What the database's own reads are compared with.
    fn proof_source(&self) -> ProofSource;

    /// Network interfaces that its bytes cross; `None` when none leave the database's host.
    fn interfaces(&self) -> Option<Interfaces> {
        None
    }

    /// Pid of each serving process, with the part it serves.
    fn servers(&self) -> Vec<(Part, u32)> {
        Vec::new()
    }

    /// Processes of the client's side that are not the database's own; their processor time is counted with its.
    fn clients(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Processes that serve and are not ours, where they run on this host and can be found.
    fn other_servers(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Whether threads of the kernel do what on other paths processes of the comparison do; their processor time is counted then.
    fn works_in_kernel(&self) -> bool {
        false
    }

    /// An error when a serving process has ended, or cannot be reached for a while.
    fn expect_alive(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    /// The same for one who met an error that it may explain: may wait until it is certain.
    fn expect_alive_after_all(&mut self) -> Result<(), LabError> {
        self.expect_alive()
    }

    /// What servers and clients counted since they began.
    fn counters(&self) -> Result<StorageCounters, LabError> {
        Ok(StorageCounters::default())
    }

    /// Bytes read on the path since it began, as its proof source counts them.
    fn reads(&self, database: &mut Server) -> Result<Reads, LabError>;

    /// What the modelled media counted so far, all volumes together; none without one.
    fn medium_counters(&self) -> Result<Option<media::Counters>, LabError>;

    /// Clean stop.
    fn stop(self: Box<Self>) -> Result<(), LabError> {
        Ok(())
    }
}

/// What servers and clients of a path counted since they began.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageCounters {
    /// Calls our servers answered, all of them together.
    pub(crate) server_calls: BTreeMap<String, ProcedureCount>,
    /// How our servers keep written data safe, as the first one says; they share one set of options. None without one.
    pub(crate) durability: Option<String>,
    /// Connections open to our servers of the data; none without one.
    pub(crate) connections: Option<u64>,
    /// Calls of our own client, all volumes together.
    pub(crate) client_calls: BTreeMap<String, ProcedureCount>,
    /// What our own clients did, one entry for each volume, the data's first.
    pub(crate) client_activity: Vec<Activity>,
    /// Slots of a client in the kernel, that of the data; none on other paths.
    pub(crate) kernel_slots: Option<KernelSlots>,
    /// What crossed the path as the kernel counts it below its page cache; none on other paths.
    pub(crate) carried: Option<Carried>,
}

/// What a client in the kernel says of its slots, since it was mounted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KernelSlots {
    /// Slots of all connections together, at most.
    pub(crate) limit: u32,
    /// Most there were at once, of all connections together.
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
    /// From each volume; empty when nothing counts them apart.
    pub(crate) by_volume: Vec<(Part, u64)>,
    /// Of the data; none when nothing counts them.
    pub(crate) of_data: Option<u64>,
}

impl Reads {
    /// From what was read of each volume.
    pub(crate) fn of_volumes(by_volume: Vec<(Part, u64)>) -> Self {
        let data = by_volume.iter().filter(|(part, _)| part.holds_data()).map(|(_, bytes)| bytes).sum();
        Self { by_volume, of_data: Some(data) }
    }
}

/// Adds calls to those of a procedure.
pub(crate) fn add_calls(counts: &mut BTreeMap<String, ProcedureCount>, name: &str, more: &ProcedureCount) {
    let all = counts.entry(name.to_owned()).or_default();
    all.calls += more.calls;
    all.bytes += more.bytes;
}
